"""The JSON interface to models, asked as a client would."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from certified import read
from fresh.attribution.support_model import SupportModel
from fresh.document import Document
from fresh.predictor import Predictor
from fresh.rationalizer import Rationalizer
from fresh.reporting.console import to_record
from fresh.serving.app import create_app
from served import TEXT, kept_of, loaded, save_models, save_pair_model

ONE, ANY, PAIR = (f"/v1/models/{name}" for name in ("one-length", "any-length", "pair"))


@pytest.fixture(scope="module")
def places(
    support: SupportModel, predictor: Predictor, pair_support: SupportModel, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    place = tmp_path_factory.mktemp("models")
    pair = save_pair_model(pair_support, place / "pair")
    return save_models(support, predictor, place) | {"pair": pair}


@pytest.fixture(scope="module")
def client(places: dict[str, str]) -> Iterator[TestClient]:
    with TestClient(create_app(*loaded(*places.values())), base_url="http://127.0.0.1") as client:
        yield client


@pytest.fixture(scope="module")
def model(places: dict[str, str]) -> Rationalizer:
    return Rationalizer.from_pretrained(places["any-length"], device="cpu")


def refusal(client: TestClient, address: str, body: Any) -> tuple[int, str]:
    """Ask for what must be refused: the status, and what is told."""
    answer = client.post(address, json=body)
    assert answer.headers["content-type"] == "application/problem+json"
    told = answer.json()
    assert told.keys() == {"type", "title", "status", "detail"}
    assert told["status"] == answer.status_code
    return answer.status_code, told["detail"]


def test_models_are_listed(client: TestClient) -> None:
    listed = client.get("/v1/models").json()
    assert [about["name"] for about in listed] == ["one-length", "any-length", "pair"]
    assert [about["ratios"] for about in listed] == [None, [0.1, 0.6], None]
    assert [about["asks"] for about in listed] == [False, False, True]
    assert listed[0]["labels"] == ["neg", "pos"]
    assert len(listed[0]["predictor_sha256"]) == 64


def test_an_answer_is_what_explain_writes(client: TestClient, model: Rationalizer) -> None:
    answer = client.post(f"{ONE}/explain", json={"text": TEXT})
    assert answer.status_code == 200
    assert answer.json() == to_record(model.explain(Document.from_text(TEXT, id="text")))


def test_texts_are_answered_in_order(client: TestClient, model: Rationalizer) -> None:
    texts = [TEXT, "it was awful", "“great” 😀 sea film"]
    answers = client.post(f"{ONE}/explain", json={"texts": texts}).json()
    assert [answer["id"] for answer in answers] == ["text-1", "text-2", "text-3"]
    for answer, text in zip(answers, texts, strict=True):
        alone = to_record(model.explain(text))
        assert answer["rationale"] == alone["rationale"]
        assert answer["probabilities"] == pytest.approx(alone["probabilities"], abs=1e-5)


def test_a_ratio_is_that_of_explain(client: TestClient, model: Rationalizer) -> None:
    answer = client.post(f"{ANY}/explain", json={"text": TEXT, "ratio": 0.5, "scores": True}).json()
    [expected] = model.explain([Document.from_text(TEXT, id="text")], ratio=0.5)
    assert answer == to_record(expected, scores=True)


def test_a_curve_is_that_of_the_model(client: TestClient, model: Rationalizer) -> None:
    found = client.post(f"{ANY}/curve", json={"text": TEXT}).json()
    expected = model.curve(Document.from_text(TEXT, id="text"))
    assert [point["rationale"] for point in found["points"]] == [
        to_record(point)["rationale"] for point in expected.points
    ]
    assert found["points"][found["minimal"]]["rationale"] == to_record(expected.minimal)["rationale"]


def test_a_query_is_read(client: TestClient) -> None:
    answers = [
        client.post(f"{PAIR}/explain", json={"text": "a good film", "query": query}).json()
        for query in ("praise", "blame")
    ]
    assert answers[0]["probabilities"] != answers[1]["probabilities"]


def test_with_the_mask_held_a_dropped_word_changes_nothing_and_a_kept_one_may(client: TestClient) -> None:
    first = client.post(f"{ONE}/explain", json={"text": TEXT, "scores": True}).json()
    words, kept = first["words"], kept_of(first)
    held = client.post(f"{ONE}/explain", json={"words": words, "kept": kept}).json()
    dropped = [word if keep else "awful" for word, keep in zip(words, kept, strict=True)]
    edited = client.post(f"{ONE}/explain", json={"words": dropped, "kept": kept}).json()
    assert edited["probabilities"] == held["probabilities"]
    read_words = ["awful" if keep else word for word, keep in zip(words, kept, strict=True)]
    other = client.post(f"{ONE}/explain", json={"words": read_words, "kept": kept}).json()
    assert other["label"] != held["label"]


def test_no_word_may_be_held(client: TestClient) -> None:
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


TRAINED_FOR_ONE = (
    "Another ratio needs a model that was trained for a range of ratios, such as ratio=0.05:0.5. "
    "This one serves a single length."
)
NO_CURVE = "A curve goes through all ratios of one text: give text, and query for a model that asks."
REFUSED = [
    (f"{ONE}/explain", {}, "A request has one of text, texts and words, got none of them."),
    (
        f"{ONE}/explain",
        {"text": "a", "texts": ["b"]},
        "A request has one of text, texts and words, got text and texts.",
    ),
    (f"{ONE}/explain", {"text": ""}, "The text has no words. Give a text with at least one."),
    (f"{ONE}/explain", {"texts": ["a", " \n"]}, "The text-2 has no words. Give a text with at least one."),
    (f"{ONE}/explain", {"texts": []}, "texts holds 1 to 64 texts, got 0. For more, upload a file as a job."),
    (f"{ONE}/explain", {"texts": ["a"] * 65}, "texts holds 1 to 64 texts, got 65. For more, upload a file as a job."),
    (
        f"{ONE}/explain",
        {"text": "a film " * 150_000},
        "The text has 1,050,000 characters; at most 100,000 are taken. Send parts of it.",
    ),
    (f"{ONE}/explain", {"text": "a", "ratio": 0.3}, TRAINED_FOR_ONE),
    (
        f"{ANY}/explain",
        {"text": "a", "ratio": 0.9},
        "ratio must be in [0.1, 0.6], the range this model was trained for, got 0.9.",
    ),
    (
        f"{ONE}/explain",
        {"text": "a", "query": "why"},
        "Model 'one-length' was trained without queries: leave query out.",
    ),
    (
        f"{PAIR}/explain",
        {"text": "a"},
        "Model 'pair' was trained with queries: give one as query beside the text.",
    ),
    (
        f"{PAIR}/explain",
        {"text": "a", "query": " "},
        "Model 'pair' was trained with queries: give one as query beside the text.",
    ),
    (
        f"{ONE}/explain",
        {"words": ["a", "film"], "kept": [True]},
        "kept has 1 flags for 2 words. Give one for each word.",
    ),
    (f"{ONE}/explain", {"words": ["a"]}, "words and kept go together: one flag for each word that is given."),
    (f"{ONE}/explain", {"words": [], "kept": []}, "words must hold at least one word, and no empty one."),
    (
        f"{ANY}/explain",
        {"words": ["a"], "kept": [True], "ratio": 0.2},
        "ratio says how many words are chosen, and kept which ones: leave either out.",
    ),
    (f"{ONE}/explain", {"text": "a", "colour": 1}, "colour is not a field of this request."),
    (f"{ONE}/explain", {"text": 3}, "text: input should be a valid string."),
    (f"{ONE}/curve", {"text": "a"}, "Model 'one-length' was trained for one length, so that there is no curve."),
    (f"{ANY}/curve", {"text": "a", "ratio": 0.3}, NO_CURVE),
]


@pytest.mark.parametrize(("address", "body", "told"), REFUSED, ids=[told[:40] for _, _, told in REFUSED])
def test_what_cannot_be_answered_is_refused_in_words(client: TestClient, address: str, body: Any, told: str) -> None:
    assert refusal(client, address, body) == (422, told)


def test_an_unknown_model_gets_its_neighbour(client: TestClient) -> None:
    body = {"text": "a"}
    assert refusal(client, "/v1/models/one-lenth/explain", body) == (
        404,
        "one-lenth is not a model here. Did you mean one-length?",
    )
    assert refusal(client, "/v1/models/xyz/explain", body) == (
        404,
        "xyz is not a model here. There are: one-length, any-length, pair.",
    )


def test_a_text_that_the_model_cannot_read_is_told_in_its_own_words(client: TestClient) -> None:
    status, told = refusal(client, f"{ONE}/explain", {"text": "film " * 15_000})
    assert status == 422
    assert told.startswith("Text 'text' has 15000 words, or 15000 pieces, but only")


def test_broken_json_and_half_characters_are_told(client: TestClient) -> None:
    kind = {"content-type": "application/json"}
    broken = client.post(f"{ONE}/explain", content=b'{"text": ', headers=kind).json()["detail"]
    assert broken == "The body is broken JSON (Expecting value). Send one JSON object."
    half = client.post(f"{ONE}/explain", content=b'{"text": "a \\ud800"}', headers=kind).json()["detail"]
    assert half == "The text holds half a character (surrogates not allowed). Send whole ones."


UNREAD = "The body is JSON that cannot be read: it is nested too deep, or a number has too many digits."
LATIN = '{"text": "schöner Film"}'.encode("latin-1")
NOT_READ = [
    (
        b'{"text": "a"}',
        "",
        415,
        "The body came without saying what it is. Send JSON, with the header Content-Type: application/json.",
    ),
    (
        b'{"text": "a"}',
        "application/x-www-form-urlencoded",
        415,
        "The body came as application/x-www-form-urlencoded. "
        "Send JSON, with the header Content-Type: application/json.",
    ),
    (LATIN, "application/json", 400, "The body is not UTF-8 (the byte 0xf6 at place 13). JSON is sent in UTF-8."),
    (b'{"text": ' + b"[" * 100_000, "application/json", 400, UNREAD),
    (b'{"text": ' + b"9" * 5_000 + b"}", "application/json", 400, UNREAD),
    (b"", "application/json", 422, "The body is empty. Send one JSON object."),
    (b"[1]", "application/json", 422, "The body is JSON, but no object. Send one JSON object."),
]


@pytest.mark.parametrize(("body", "kind", "status", "told"), NOT_READ)
def test_a_body_that_is_no_json_in_utf8_is_told(
    client: TestClient, body: bytes, kind: str, status: int, told: str
) -> None:
    answer = client.post(f"{ONE}/explain", content=body, headers={"content-type": kind} if kind else {})
    assert answer.headers["content-type"] == "application/problem+json"
    assert (answer.status_code, answer.json()["detail"]) == (status, told)
