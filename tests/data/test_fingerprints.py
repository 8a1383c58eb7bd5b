from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from fresh.data.fingerprints import SIZE, TrainingFingerprints
from fresh.document import Document
from strategies import documents


@given(st.lists(documents(), max_size=6), st.lists(documents(), max_size=6))
def test_what_was_seen_is_counted(before: list[Document], now: list[Document]) -> None:
    known = {(document.words, document.query) for document in before}
    seen = TrainingFingerprints.of(before)
    assert len(seen.digests) == len(known)
    assert seen.count(now) == sum((document.words, document.query) in known for document in now)
    assert seen.count(before) == len(before)


def test_white_space_and_names_do_not_matter_but_queries_do() -> None:
    seen = TrainingFingerprints.of([Document.from_text("a  good\nfilm", "is it?", "one")])
    assert seen.count([Document.from_text("a good film", "is it?", "two")]) == 1
    assert seen.count([Document.from_text("a good film"), Document.from_text("a good film is it?")]) == 0


def test_it_is_written_and_read_back(tmp_path: Path) -> None:
    known = [Document.from_words((word, "film")) for word in ("good", "bad", "\ud800")]
    TrainingFingerprints.of(known).save(tmp_path / "seen.bin")
    assert (tmp_path / "seen.bin").stat().st_size == 3 * SIZE
    again = TrainingFingerprints.load(tmp_path / "seen.bin")
    assert again.count(known) == 3
    assert again.count([Document.from_words(("awful", "film"))]) == 0
    TrainingFingerprints.of([]).save(tmp_path / "none.bin")
    assert TrainingFingerprints.load(tmp_path / "none.bin").count(known) == 0
