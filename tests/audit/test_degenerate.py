import time
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cheats
from fresh.audit.degenerate import STOP_WORDS, Finding, _is_punctuation, check_content, find_degenerate
from fresh.document import Document, Mask
from fresh.reporting.report import Verdict
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


def test_sound_rationales_are_left_in_peace() -> None:
    rows = [
        ("a [good] film and a long one", "pos"),
        ("it was [dull] , [really]", "neg"),
        ("who would [like] this", "neg"),
        ("[fine] acting throughout", "pos"),
        ("no [wit] at [all] here , [none]", "neg"),
        ("one [laughs] a lot", "pos"),
    ]
    found = find(rows * 4)
    assert list(found) == [*CHECKS, "class word of neg", "class word of pos"]
    assert not any(finding.degenerate for finding in found.values())


VAIN = [("[The] [,] film [Is] good", "pos"), ("a [film] [.]", "neg"), ("[not] here", "neg")]
FIRST, LAST = [("[one] [two] three", "a"), ("[one] two", "b")] * 5, [("one [two] [three]", "a"), ("one [two]", "b")] * 5
ONE_LENGTH = [("a [b] c", "x"), ("[a] b c d", "y")] * 5
WHOLE = [("[one] [two]", "a"), ("[one]", "b")] * 9
CLASS_WORD = [("some [Yes] words", "pos"), ("a [yes] [b] c", "pos"), ("yes [words] more", "neg")] * 10
COMMON = [("a [the] b", "pos"), ("a [the] b c", "neg")] * 10


@pytest.mark.parametrize(
    ("check", "rows", "degenerate", "count", "total"),
    [
        ("no words", [("a b", "x"), ("[a] b", "x")], True, 1, 2),
        ("stop words", VAIN, True, 1, 3),
        ("stop words", [("[the] film", "a"), *[("the [film]", "a")] * 9], False, 1, 10),
        ("stop words", [("[Der] Film", "a")], False, 0, 1),
        ("first words", FIRST, True, 10, 10),
        ("last words", FIRST, False, 0, 10),
        ("first words", FIRST[:9], False, 9, 9),  # too few to say always
        ("last words", LAST, True, 10, 10),
        ("first words", LAST, False, 0, 10),
        ("first words", WHOLE, False, 0, 0),  # whole documents are not their first words
        ("last words", WHOLE, False, 0, 0),
        ("same length", WHOLE, False, 0, 0),
        ("same length", ONE_LENGTH, True, 10, 10),
        ("same length", [*ONE_LENGTH, ("[a] [b] c", "x")], False, 10, 11),
        ("same length", [("a [b] c", "x")] * 10, False, 10, 10),
        ("class word of pos", CLASS_WORD, True, 20, 20),
        ("class word of neg", CLASS_WORD, True, 10, 10),
        ("class word of pos", CLASS_WORD[:12], False, 8, 8),  # too few
        ("class word of pos", [("the [the] [x]", "pos"), ("a [the] [y] b", "neg")] * 10, True, 10, 10),
        ("class word of pos", COMMON, False, 10, 10),
        ("class word of only", [("a [b]", "only")] * 20, False, 0, 20),
    ],
)
def test_rationales_that_say_nothing_are_counted(
    check: str, rows: list[tuple[str, str]], degenerate: bool, count: int, total: int
) -> None:
    finding = find(rows)[check]
    assert (finding.degenerate, finding.count, finding.total) == (degenerate, count, total)


@pytest.mark.parametrize(
    ("check", "rows", "sentence"),
    [
        ("no words", [("a b", "x"), ("[a] b", "x")], "1 of 2 rationales have no words at all."),
        ("stop words", VAIN, "1 of 3 rationales consist of punctuation and stop words only."),
        ("first words", FIRST, "10 of 10 {} are the first words of their document."),
        ("same length", WHOLE, "0 of 0 {} have 0 words, and their documents are all of one length."),
        ("same length", ONE_LENGTH, "10 of 10 {} have 1 word, and their documents differ in length."),
        ("class word of pos", CLASS_WORD, "'yes' is in 20 of 20 rationales of 'pos' and in 0 of 10 of the others."),
    ],
)
def test_findings_in_words(check: str, rows: list[tuple[str, str]], sentence: str) -> None:
    assert find(rows)[check].sentence == sentence.format("rationales that leave words out")


def test_a_few_documents_are_named() -> None:
    assert find(FIRST)["first words"].ids == ("0", "1", "2", "3", "4")
    assert find(CLASS_WORD)["class word of pos"].ids == ("0", "1", "3", "4", "6")


def test_stop_words_of_another_language_and_no_words_of_negation() -> None:
    assert find([("[Der] Film", "a")], stop_words=frozenset({"der"}))["stop words"].count == 1
    assert not STOP_WORDS & {"no", "not", "never", "n't", "nor", "without"}


def test_signs_are_punctuation() -> None:
    assert all(map(_is_punctuation, (".", "--", "...", "«", "`", "=", "。", "'", "\u00ad")))
    assert not any(map(_is_punctuation, ("a", "7", "👍🏽", "❤\ufe0f", "$", "中", "n't")))


@given(st.lists(documents(), min_size=1, max_size=6), st.data())
def test_counts_are_of_what_there_is(items: list[Document], data: st.DataObject) -> None:
    kept = [data.draw(masks(document)) for document in items]
    decisions = [data.draw(st.sampled_from("ab")) for _ in items]
    for finding in find_degenerate(items, kept, decisions):
        assert 0 <= finding.count <= finding.total <= len(items)
        assert len(finding.ids) == min(5, finding.count)
        assert not finding.degenerate or finding.count


@given(st.lists(st.tuples(st.lists(st.sampled_from("abcde"), max_size=4), st.sampled_from("xyz")), min_size=1))
def test_class_words_are_those_that_one_finds_slowly(rows: list[tuple[list[str], str]]) -> None:
    """Everything is counted anew for each class and word."""
    found = find([(" ".join(["end", *(f"[{word}]" for word in words)]), decision) for words, decision in rows])
    for decision in {decision for _, decision in rows}:
        own, others = ([words for words, label in rows if (label == decision) is is_own] for is_own in (True, False))
        n_here, n_there = (Counter(word for words in side for word in set(words)) for side in (own, others))
        sentence = f"No word can tell {decision!r} from other classes."
        if n_here and others:
            word = max(sorted(n_here), key=lambda word: n_here[word] / len(own) - n_there[word] / len(others))
            sentence = (
                f"{word!r} is in {n_here[word]} of {len(own)} rationales of {decision!r} "
                f"and in {n_there[word]} of {len(others)} of the others."
            )
        assert found[f"class word of {decision}"].sentence == sentence


def test_many_classes_take_no_time() -> None:
    generator = np.random.default_rng(0)
    rows = generator.integers(5_000, size=(3_000, 60))
    texts = [Document.from_words([f"w{word}" for word in row]) for row in rows]
    start = time.process_time()
    flags = [Mask(generator.random(60) < 0.5) for _ in texts]
    assert len(find_degenerate(texts, flags, [str(n % 300) for n in range(3_000)])) == len(CHECKS) + 300
    assert time.process_time() - start < 5


# The verdict


def judge(spans: list[tuple[int, int]]) -> Verdict:
    """Judge rationales of documents of growing length, of two labels in turn."""
    kept = [Mask.from_spans([span], size) for size, span in enumerate(spans, start=4)]
    texts = [Document.from_words([f"w{n}"] * len(mask), id=str(n)) for n, mask in enumerate(kept)]
    labels = ["pos", "neg"] * 6
    return check_content([cheats.explained(*row) for row in zip(texts, kept, map(cheats.sure, labels), strict=False)])


def test_degenerate_rationales_are_named() -> None:
    found = judge([(0, 1)] * 12)
    assert (found.name, found.found) == ("degenerate rationales", "look here")
    assert found.says.startswith("12 of 12 rationales that leave words out are the first words of their document. ")
    assert found.evidence[0].endswith(" of their document. See: '0', '1', '2', '3', '4'.")
    few = judge([(0, 1)] * 3)
    assert (few.found, few.evidence) == ("not run", ())
    assert judge([(size % 3, size % 3 + 1 + size % 2) for size in range(4, 16)]).found == "holds"
