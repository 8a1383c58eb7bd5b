from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from fresh.data.fingerprints import DIGEST_BYTES, TrainingFingerprints
from fresh.document import Document
from strategies import documents


@given(st.lists(documents(), max_size=6), st.lists(documents(), max_size=6))
def test_texts_of_the_training_are_counted(before: list[Document], now: list[Document]) -> None:
    known = {(document.words, document.query) for document in before}
    fingerprints = TrainingFingerprints.from_documents(before)
    assert len(fingerprints.digests) == len(known)
    assert fingerprints.count(now) == sum((document.words, document.query) in known for document in now)
    assert fingerprints.count(before) == len(before)


def test_white_space_and_ids_do_not_matter_but_queries_do() -> None:
    fingerprints = TrainingFingerprints.from_documents([Document.from_text("a  good\nfilm", "is it?", "one")])
    assert fingerprints.count([Document.from_text("a good film", "is it?", "two")]) == 1
    assert fingerprints.count([Document.from_text("a good film"), Document.from_text("a good film is it?")]) == 0


def test_fingerprints_are_saved_and_loaded(tmp_path: Path) -> None:
    known = [Document.from_words((word, "film")) for word in ("good", "bad", "\ud800")]
    for saved, n_known in ((known, 3), ([], 0)):
        TrainingFingerprints.from_documents(saved).save(tmp_path / "seen.bin")
        assert (tmp_path / "seen.bin").stat().st_size == n_known * DIGEST_BYTES
        loaded = TrainingFingerprints.load(tmp_path / "seen.bin")
        assert loaded.count(known) == n_known
        assert loaded.count([Document.from_words(("awful", "film"))]) == 0
