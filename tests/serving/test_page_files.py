"""Files on the page of `fresh serve`: uploaded, watched, cancelled, found again, downloaded."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect

from fresh.document import Document
from fresh.rationalizer import Rationalizer
from fresh.serving.jobs import Jobs
from served import TEXT

ROWS = "review\n" + "".join(f"{TEXT} {number}\n" for number in range(20))


@pytest.fixture(autouse=True)
def delete_jobs(page: Page, url: str) -> Iterator[None]:
    """Delete from the server what this browser uploaded."""
    yield
    if page.is_closed():
        return  # the test did
    for id in kept(page):
        httpx.delete(f"{url}v1/jobs/{id}")


def kept(page: Page) -> list[str]:
    """The jobs that the browser remembers."""
    return str(page.evaluate("localStorage.getItem('fresh-jobs') ?? ''")).split()


def choose(page: Page, url: str, content: str, name: str = "r.csv", model: str = "one-length") -> None:
    page.goto(url)
    page.get_by_label("Model", exact=True).select_option(model)
    page.get_by_role("tab", name="File").click()
    file = {"name": name, "mimeType": "text/csv", "buffer": content.encode()}
    page.get_by_label("Choose a file").set_input_files(file)  # type: ignore[arg-type]


def explain_all(page: Page) -> None:
    page.get_by_role("button", name="Explain all").click()


def records(page: Page) -> list[dict[str, object]]:
    with page.expect_download() as waiting:
        page.get_by_role("link", name="Download JSON lines").click()
    return [json.loads(line) for line in Path(waiting.value.path()).read_text(encoding="utf-8").splitlines()]


def test_a_file_is_uploaded_explained_and_downloaded(page: Page, url: str, model: Rationalizer) -> None:
    page.goto(url)
    page.get_by_label("Model", exact=True).select_option("one-length")
    page.get_by_role("tab", name="Single text").press("ArrowRight")
    explain_all(page)
    expect(page.locator("#batch-problem")).to_have_text("Choose a file first.")
    choose(page, url, ROWS)
    expect(page.locator("#columns-found")).to_have_text("Columns: review")
    explain_all(page)
    expect(page.locator("#batch-problem")).to_contain_text("“Column with the text”")
    page.get_by_label("Column with the text").fill("review")
    explain_all(page)
    expect(page.locator(".job-status")).to_have_text("Done: 20 of 20 texts explained.")
    expect(page.locator("#batch-problem")).to_be_hidden()
    found = records(page)
    assert [record["id"] for record in found] == [f"r-{number}" for number in range(1, 21)]
    assert found[0]["label"] == model.explain(Document.from_text(f"{TEXT} 0")).prediction.label
    page.get_by_role("button", name="Delete from the server").click()
    expect(page.locator(".job")).to_have_count(0)
    assert kept(page) == []


def test_jobs_are_found_again_after_the_page_was_closed(page: Page, url: str) -> None:
    choose(page, url, ROWS.replace("review", "text"))
    explain_all(page)
    expect(page.locator(".job-status")).to_have_text("Done: 20 of 20 texts explained.")
    choose(page, url, f"text\n{TEXT}\n", "other.csv")
    expect(page.locator(".job")).to_have_count(1)
    explain_all(page)
    expect(page.locator(".job-status").first).to_have_text("Done: 1 of 1 text explained.")
    again = page.context.new_page()
    page.close()
    again.goto(url)
    expect(again.get_by_role("tab", name="File (2)")).to_be_visible()
    again.get_by_role("tab", name="File (2)").click()
    expect(again.locator(".job-name")).to_have_text(["other.csv", "r.csv"])
    again.reload()
    expect(again.locator("#panel-batch")).to_be_visible()  # the address holds the tab
    done = ["Done: 1 of 1 text explained.", "Done: 20 of 20 texts explained."]
    expect(again.locator(".job-status")).to_have_text(done)
    for id in kept(again):
        httpx.delete(f"{url}v1/jobs/{id}")
    again.reload()
    for _ in range(200):  # they are asked about one by one
        if not kept(again):
            break
        again.wait_for_timeout(50)
    assert kept(again) == []
    expect(again.get_by_role("tab", name="File", exact=True)).to_be_visible()


def test_a_running_job_can_be_cancelled(page: Page, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Jobs, "_explain", lambda _jobs, job, _output: job.stopped.wait(30))
    choose(page, url, f"text\n{TEXT}\n")
    explain_all(page)
    expect(page.locator(".job-status")).to_have_text("0 of 1 text explained …")
    [id] = kept(page)
    expect(page.get_by_role("link", name="Download CSV")).to_be_hidden()
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator(".job")).to_have_count(0)
    assert httpx.get(f"{url}v1/jobs/{id}").status_code == 404


def test_the_ratio_is_set_for_models_with_a_range(page: Page, url: str) -> None:
    choose(page, url, f"text\n{TEXT}\n", model="any-length")
    field = page.get_by_label("Share of words to read, 0.1 to 0.6")
    field.fill("0.9")
    explain_all(page)
    expect(page.locator("#batch-problem")).to_contain_text("got 0.9")
    field.fill("0.6")
    explain_all(page)
    expect(page.locator(".job-status")).to_have_text("Done: 1 of 1 text explained.")
    expect(page.locator(".job-model")).to_have_text("by any-length, ratio 0.6")
    assert records(page)[0]["ratio"] == pytest.approx(8 / 13)
    page.get_by_label("Model", exact=True).select_option("one-length")
    expect(field).to_be_hidden()


def test_invalid_rows_are_reported_with_the_way_out(page: Page, url: str) -> None:
    choose(page, url, f'{{"text": "{TEXT}"}}\n{{"text": "{"film " * 6000}"}}\n', "r.jsonl")
    explain_all(page)
    expect(page.locator("#batch-problem")).to_contain_text("r.jsonl, line 2: text 'r-2' has 6,000 words")
    expect(page.locator("#batch-problem")).to_contain_text("“Skip rows that cannot be used”")
    page.get_by_text("Skip rows that cannot be used", exact=True).click()
    explain_all(page)
    expect(page.locator(".job-status")).to_have_text("Done: 1 of 1 text explained.")
    expect(page.locator(".job-left-out")).to_contain_text("Left out 1 of 2 rows: r.jsonl, line 2: text 'r-2' has")


def test_query_columns_are_ignored_for_models_without_queries(page: Page, url: str) -> None:
    choose(page, url, f'\ufefftext,query,"a \u202ename"\n{TEXT},why,x\n')
    expect(page.locator("#columns-found")).to_have_text("Columns: text, query, a \ufffdname")
    explain_all(page)
    expect(page.locator(".job-status")).to_have_text("Done: 1 of 1 text explained.")
    page.get_by_label("Model", exact=True).select_option("pair")
    explain_all(page)
    expect(page.locator(".job-status")).to_have_text(["Done: 1 of 1 text explained."] * 2)
    expect(page.locator(".job-model")).to_have_text(["by pair", "by one-length"])


def test_errors_are_shown_and_polling_continues(page: Page, url: str) -> None:
    choose(page, url, f"text\n{TEXT}\n")
    page.route("**/v1/jobs/*", lambda route: route.fulfill(status=422, json={"detail": "Not now."}))
    explain_all(page)
    expect(page.locator(".job-problem")).to_have_text("Not now.")
    page.unroute_all()
    expect(page.locator(".job-status")).to_have_text("Done: 1 of 1 text explained.")
    expect(page.locator(".job-problem")).to_be_hidden()


def test_a_file_that_expired_on_the_server_is_reported(page: Page, url: str) -> None:
    choose(page, url, f"text\n{TEXT}\n", "\u202egpj.csv")
    explain_all(page)
    expect(page.locator(".job-status")).to_have_text("Done: 1 of 1 text explained.")
    expect(page.locator(".job-name")).to_have_text("\ufffdgpj.csv")
    [job] = kept(page)
    page.request.delete(f"{url}v1/jobs/{job}", headers={"Origin": url.rstrip("/")})
    page.get_by_role("link", name="Download CSV").click()
    expect(page.locator(".job-problem")).to_contain_text("Upload the file again.")
    expect(page.get_by_role("link", name="Download CSV")).to_be_hidden()
    page.get_by_role("button", name="Remove").click()
    expect(page.locator(".job")).to_have_count(0)
    assert kept(page) == []
