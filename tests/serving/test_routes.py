"""The JSON interface to models, asked as a client would."""

import re
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from certified import read
from fresh.document import Document
from fresh.rationalizer import Rationalizer
from fresh.reporting.console import to_record
from served import TEXT, kept_of, problem

ONE, ANY, PAIR = (f"/v1/models/{name}" for name in ("one-length", "any-length", "pair"))


def test_models_are_listed(client: TestClient) -> None:
    listed = client.get("/v1/models").json()
    assert [about["name"] for about in listed] == ["one-length", "any-length", "pair"]
    assert [about["ratios"] for about in listed] == [None, [0.1, 0.6], None]
    assert [about["asks"] for about in listed] == [False, False, True]
    assert listed[0]["labels"] == ["neg", "pos"]
    assert len(listed[0]["predictor_sha256"]) == 64


def test_answers_match_explain(client: TestClient, model: Rationalizer) -> None:
    answer = client.post(f"{ONE}/explain", json={"text": TEXT})
    assert answer.status_code == 200
    assert answer.json() == to_record(model.explain(Document.from_text(TEXT, id="text")))
    answer = client.post(f"{ANY}/explain", json={"text": TEXT, "ratio": 0.5, "scores": True})
    [expected] = model.explain([Document.from_text(TEXT, id="text")], ratio=0.5)
    assert answer.json() == to_record(expected, scores=True)


def test_texts_are_answered_in_order(client: TestClient, model: Rationalizer) -> None:
    texts = [TEXT, "it was awful", "“great” 😀 sea film"]
    answers = client.post(f"{ONE}/explain", json={"texts": texts}).json()
    assert [answer["id"] for answer in answers] == ["text-1", "text-2", "text-3"]
    for answer, text in zip(answers, texts, strict=True):
        alone = to_record(model.explain(text))
        assert answer["rationale"] == alone["rationale"]
        assert answer["probabilities"] == pytest.approx(alone["probabilities"], abs=1e-5)


def test_curves_match_the_model(client: TestClient, model: Rationalizer) -> None:
    found = client.post(f"{ANY}/curve", json={"text": TEXT}).json()
    expected = model.curve(Document.from_text(TEXT, id="text"))
    shown = [to_record(point)["rationale"] for point in expected.points]
    assert [point["rationale"] for point in found["points"]] == shown
    assert found["points"][found["minimal"]]["rationale"] == to_record(expected.minimal)["rationale"]


def test_queries_change_the_answer(client: TestClient) -> None:
    bodies = ({"text": "a good film", "query": query} for query in ("praise", "blame"))
    one, other = (client.post(f"{PAIR}/explain", json=body).json() for body in bodies)
    assert one["probabilities"] != other["probabilities"]


def test_with_a_fixed_mask_only_read_words_change_the_answer(client: TestClient) -> None:
    first = client.post(f"{ONE}/explain", json={"text": TEXT, "scores": True}).json()
    words, kept = first["words"], kept_of(first)
    held = client.post(f"{ONE}/explain", json={"words": words, "kept": kept}).json()
    dropped = [word if keep else "awful" for word, keep in zip(words, kept, strict=True)]
    edited = client.post(f"{ONE}/explain", json={"words": dropped, "kept": kept}).json()
    assert edited["probabilities"] == held["probabilities"]
    read_words = ["awful" if keep else word for word, keep in zip(words, kept, strict=True)]
    other = client.post(f"{ONE}/explain", json={"words": read_words, "kept": kept}).json()
    assert other["label"] != held["label"]
    answer = client.post(f"{ONE}/explain", json={"words": ["good", "film"], "kept": [False, False]})
    assert (answer.status_code, answer.json()["rationale"]) == (200, [])


def test_a_certificate_holds(client: TestClient, places: dict[str, str], tmp_path: Path) -> None:
    from fresh.audit.certificates.verify import verify

    answer = client.post(f"{ONE}/certificate", json={"texts": [TEXT, "it was awful"]})
    assert answer.headers["content-disposition"] == 'attachment; filename="certificate.jsonl"'
    certificates, faults = read(answer.content)
    assert (len(certificates), faults) == (2, [])
    path = tmp_path / "certificates.jsonl"
    path.write_bytes(answer.content)
    verdict = verify(path, places["one-length"], device="cpu")
    assert (verdict.holds, verdict.count, verdict.n_exact) == (True, 2, 2)


REFUSED: list[tuple[str, Any, str]] = [
    (f"{ONE}/explain", {}, r"one of text, texts and words, got none"),
    (f"{ONE}/explain", {"text": "a", "texts": ["b"]}, r"one of text, texts and words, got text and texts"),
    (f"{ONE}/explain", {"text": ""}, r"The text has no words"),
    (f"{ONE}/explain", {"texts": ["a", " \n"]}, r"The text-2 has no words"),
    (f"{ONE}/explain", {"texts": []}, r"1 to 64 texts, got 0.*job"),
    (f"{ONE}/explain", {"texts": ["a"] * 65}, r"1 to 64 texts, got 65.*job"),
    (f"{ONE}/explain", {"text": "a film " * 150_000}, r"1,050,000 characters.*100,000"),
    (f"{ONE}/explain", {"text": "a", "ratio": 0.3}, r"range of ratios.*0\.05:0\.5"),
    (f"{ANY}/explain", {"text": "a", "ratio": 0.9}, r"ratio must be .*0\.1.*0\.6.*got 0\.9"),
    (f"{ONE}/explain", {"text": "a", "query": "why"}, r"'one-length' was trained without queries"),
    (f"{PAIR}/explain", {"text": "a"}, r"'pair' was trained with queries"),
    (f"{PAIR}/explain", {"text": "a", "query": " "}, r"'pair' was trained with queries"),
    (f"{ONE}/explain", {"words": ["a", "film"], "kept": [True]}, r"got 1 for 2"),
    (f"{ONE}/explain", {"words": ["a"]}, r"words and kept go together"),
    (f"{ONE}/explain", {"words": [], "kept": []}, r"at least one word, and no empty"),
    (f"{ONE}/explain", {"words": ["a"] * 50_001, "kept": [True] * 50_001}, r"at most 50,000 words, got 50,001"),
    (f"{ANY}/explain", {"words": ["a"], "kept": [True], "ratio": 0.2}, r"kept and ratio"),
    (f"{ONE}/explain", {"text": "a", "colour": 1}, r"colour is not a field of this request"),
    (f"{ONE}/explain", {"text": 3}, r"text: input should be a valid string"),
    (f"{ONE}/explain", {"text": "film " * 15_000}, r"Text 'text' has 15,000 words, or 15,000 tokens, but at most"),
    (f"{ONE}/curve", {"text": "a"}, r"'one-length' was trained for a single length"),
    (f"{ANY}/curve", {"text": "a", "ratio": 0.3}, r"all ratios of one text"),
]


@pytest.mark.parametrize(("address", "body", "message"), REFUSED, ids=[message[:40] for _, _, message in REFUSED])
def test_invalid_requests_are_refused(client: TestClient, address: str, body: Any, message: str) -> None:
    status, detail = problem(client.post(address, json=body))
    assert status == 422
    assert re.search(message, detail)


UNREADABLE = [
    (b'{"text": "a"}', "", 415, "no content type.*application/json"),
    (b'{"text": "a"}', "application/x-www-form-urlencoded", 415, "x-www-form-urlencoded.*application/json"),
    ('{"text": "schöner Film"}'.encode("latin-1"), "application/json", 400, "not UTF-8.*0xf6 at position 13"),
    (b'{"text": ' + b"[" * 100_000, "application/json", 400, "nested too deep.*too many digits"),
    (b'{"text": ' + b"9" * 5_000 + b"}", "application/json", 400, "nested too deep.*too many digits"),
    (b"", "application/json", 422, "empty.*JSON object"),
    (b"[1]", "application/json", 422, "not a JSON object"),
    (b'{"text": ', "application/json", 422, r"not valid JSON \(Expecting value\)"),
    (b'{"text": "a \\ud800"}', "application/json", 422, "not valid Unicode"),
]


@pytest.mark.parametrize(("body", "kind", "status", "message"), UNREADABLE)
def test_unreadable_bodies_are_refused(client: TestClient, body: bytes, kind: str, status: int, message: str) -> None:
    response = client.post(f"{ONE}/explain", content=body, headers={"content-type": kind} if kind else {})
    found, detail = problem(response)
    assert found == status
    assert re.search(message, detail)
