import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fresh.audit.degenerate import STOP_WORDS, Finding, _is_punctuation, find_degenerate
from fresh.document import Document, Mask
from strategies import documents, masks

CHECKS = ["no words", "stop words", "first words", "last words", "same length"]


def find(rows: list[tuple[str, str]], **settings: frozenset[str]) -> dict[str, Finding]:
    """Look at documents in which kept words are in brackets, with their decisions."""
    texts = [text.split() for text, _ in rows]
    found = find_degenerate(
        [Document.from_words([word.strip("[]") for word in words], id=str(i)) for i, words in enumerate(texts)],
        [Mask(np.array([word.startswith("[") for word in words])) for words in texts],
        [decision for _, decision in rows],
        **settings,
    )
    return {finding.check: finding for finding in found}


SOUND = [
    ("a [good] film and a long one", "pos"),
    ("it was [dull] , [really]", "neg"),
    ("who would [like] this", "neg"),
    ("[fine] acting throughout", "pos"),
    ("no [wit] at [all] here , [none]", "neg"),
    ("one [laughs] a lot", "pos"),
] * 4


def test_sound_rationales_are_left_in_peace() -> None:
    found = find(SOUND)
    assert list(found) == [*CHECKS, "class word of neg", "class word of pos"]
    assert not any(finding.degenerate for finding in found.values())


FIRST, LAST = [("[one] [two] three", "a"), ("[one] two", "b")] * 5, [("one [two] [three]", "a"), ("one [two]", "b")] * 5
ONE_LENGTH = [("a [b] c", "x"), ("[a] b c d", "y")] * 5
WHOLE = [("[one] [two]", "a"), ("[one]", "b")] * 9
CLASS_WORD = [("some [Yes] words", "pos"), ("a [yes] [b] c", "pos"), ("yes [words] more", "neg")] * 10


@pytest.mark.parametrize(
    ("check", "rows", "degenerate", "counts", "sentence"),
    [
        ("no words", [("a b", "x"), ("[a] b", "x")], True, (1, 2), "1 of 2 rationales have no words at all."),
        (
            "stop words",
            [("[The] [,] film [Is] good", "pos"), ("a [film] [.]", "neg"), ("[not] here", "neg")],
            True,
            (1, 3),
            "1 of 3 rationales consist of punctuation and stop words only.",
        ),
        ("stop words", [("[the] film", "a"), *[("the [film]", "a")] * 9], False, (1, 10), ""),
        ("stop words", [("[Der] Film", "a")], False, (0, 1), ""),
        (
            "first words",
            FIRST,
            True,
            (10, 10),
            "10 of 10 rationales that leave words out are the first words of their document.",
        ),
        ("last words", FIRST, False, (0, 10), ""),
        ("first words", FIRST[:9], False, (9, 9), ""),  # too few to say always
        ("last words", LAST, True, (10, 10), ""),
        ("first words", LAST, False, (0, 10), ""),
        ("first words", WHOLE, False, (0, 0), ""),  # whole documents are not their first words
        ("last words", WHOLE, False, (0, 0), ""),
        (
            "same length",
            WHOLE,
            False,
            (0, 0),
            "0 of 0 rationales that leave words out have 0 words, and their documents are all of one length.",
        ),
        (
            "same length",
            ONE_LENGTH,
            True,
            (10, 10),
            "10 of 10 rationales that leave words out have 1 word, and their documents differ in length.",
        ),
        ("same length", [*ONE_LENGTH, ("[a] [b] c", "x")], False, (10, 11), ""),
        ("same length", [("a [b] c", "x")] * 10, False, (10, 10), ""),
        (
            "class word of pos",
            CLASS_WORD,
            True,
            (20, 20),
            "'yes' is in 20 of 20 rationales of 'pos' and in 0 of 10 of the others.",
        ),
        ("class word of neg", CLASS_WORD, True, (10, 10), ""),
        ("class word of pos", CLASS_WORD[:12], False, (8, 8), ""),  # too few
        (
            "class word of pos",
            [("the [the] [x]", "pos"), ("a [the] [y] b", "neg")] * 10,
            True,
            (10, 10),
            "'x' is in 10",
        ),
        ("class word of pos", [("a [the] b", "pos"), ("a [the] b c", "neg")] * 10, False, (10, 10), ""),
        ("class word of only", [("a [b]", "only")] * 20, False, (0, 20), "No word can tell 'only' from other classes."),
    ],
)
def test_rationales_that_say_nothing_are_counted(
    check: str, rows: list[tuple[str, str]], degenerate: bool, counts: tuple[int, int], sentence: str
) -> None:
    finding = find(rows)[check]
    assert (finding.degenerate, (finding.count, finding.total)) == (degenerate, counts)
    assert finding.sentence.startswith(sentence)


def test_a_few_documents_are_named() -> None:
    assert find(FIRST)["first words"].ids == ("0", "1", "2", "3", "4")
    assert find(CLASS_WORD)["class word of pos"].ids == ("0", "1", "3", "4", "6")


def test_stop_words_of_another_language() -> None:
    assert find([("[Der] Film", "a")], stop_words=frozenset({"der"}))["stop words"].count == 1


@pytest.mark.parametrize("word", ["no", "not", "never", "n't", "nor", "without"])
def test_negation_is_no_stop_word(word: str) -> None:
    assert word not in STOP_WORDS


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        *((sign, True) for sign in (".", "--", "...", "«", "`", "=", "。", "'", "\u00ad")),
        *((word, False) for word in ("a", "7", "👍🏽", "❤\ufe0f", "$", "中", "n't")),
    ],
)
def test_signs_are_punctuation(word: str, expected: bool) -> None:
    assert _is_punctuation(word) is expected


@given(st.lists(documents(), min_size=1, max_size=6), st.data())
def test_counts_are_of_what_there_is(items: list[Document], data: st.DataObject) -> None:
    kept = [data.draw(masks(document)) for document in items]
    decisions = [data.draw(st.sampled_from("ab")) for _ in items]
    for finding in find_degenerate(items, kept, decisions):
        assert 0 <= finding.count <= finding.total <= len(items)
        assert len(finding.ids) == min(5, finding.count)
        assert not finding.degenerate or finding.count


def slow_class_words(rows: list[tuple[list[str], str]]) -> dict[str, tuple[str, int, int] | None]:
    """Find class words by counting everything anew for each class: the word, how many of the class, of the others."""
    found: dict[str, tuple[str, int, int] | None] = {}
    for decision in sorted({decision for _, decision in rows}):
        own = [words for words, other in rows if other == decision]
        others = [words for words, other in rows if other != decision]
        best = None
        for word in sorted({word for words in own for word in words}):
            here, there = (sum(word in words for words in side) for side in (own, others))
            gain = here / len(own) - there / max(1, len(others))
            if others and (best is None or gain > best[0]):
                best = gain, (word, here, there)
        found[decision] = None if best is None else best[1]
    return found


ROWS = st.lists(st.tuples(st.lists(st.sampled_from("abcde"), max_size=4), st.sampled_from("xyz")), min_size=1)


@given(ROWS)
def test_class_words_are_those_that_one_finds_slowly(rows: list[tuple[list[str], str]]) -> None:
    found = find([(" ".join(["end", *(f"[{word}]" for word in words)]), decision) for words, decision in rows])
    for decision, expected in slow_class_words(rows).items():
        finding = found[f"class word of {decision}"]
        n_own = sum(other == decision for _, other in rows)
        if expected is None:
            assert finding.sentence == f"No word can tell {decision!r} from other classes."
        else:
            word, here, there = expected
            assert (finding.count, finding.total) == (here, n_own)
            assert finding.sentence == (
                f"{word!r} is in {here} of {n_own} rationales of {decision!r} "
                f"and in {there} of {len(rows) - n_own} of the others."
            )


def test_many_classes_take_no_time() -> None:
    generator = np.random.default_rng(0)
    texts = [
        Document.from_words([f"w{n}" for n in row], id=str(i))
        for i, row in enumerate(generator.integers(5_000, size=(3_000, 60)))
    ]
    flags = [Mask(generator.random(60) < 0.5) for _ in texts]
    start = time.process_time()
    assert len(find_degenerate(texts, flags, [str(n % 300) for n in range(3_000)])) == len(CHECKS) + 300
    assert time.process_time() - start < 5
