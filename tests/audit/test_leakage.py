import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import cheats
from fresh.audit import leakage
from fresh.document import Document, Explanation, Mask
from strategies import flags

Flags = NDArray[np.bool_]
Choose = Callable[[np.random.Generator, int, int], Flags]


def mask(signs: str) -> Mask:
    return Mask(np.array([sign == "x" for sign in signs], dtype=np.bool_))


# Shapes


def test_the_shape_of_a_mask_by_hand() -> None:
    assert leakage._place_features(mask("-xx---x-xx")) == [
        *(1, 1, 9, 0, 9),  # any; first, last, words after it, from first to last
        *(0.1, 1.0, pytest.approx((1 + 2 + 6 + 8 + 9 + 2.5) / 50)),
        *(1, 1, 0, 1),  # odd, odd, not at the start, at the end
        *(3, 1, pytest.approx(5 / 3), 2),  # runs
        *(2, 3, 1),  # gaps of 3 and 1
        *(0, 0.2, 0.2, 0, 0, 0, 0.2, 0, 0.2, 0.2),
    ]
    assert leakage._place_features(mask("---")) == [0] * len(leakage._place_features(mask("x--")))


def test_lengths_and_their_remainders() -> None:
    rows = [[3, 0.5, *(0,), *(1, 0, 0), *(0, 0, 0, 1)], [4, 1.0, *(1,), *(0, 1, 0), *(1, 0, 0, 0)]]
    assert leakage.length_features([mask("xxx---"), mask("xxxx")]).tolist() == rows
    assert leakage.number_features(np.array([3])).tolist() == [[3, np.log(4), 0, 1, 0, 0, 0, 0, 0, 1]]
    frequent = [mask("x-")] * 5 + [mask("xx")] * 6 + [mask("--")] * 4
    assert leakage.count_features(frequent).tolist() == [[0, 1]] * 5 + [[1, 0]] * 6 + [[0, 0]] * 4


@given(st.integers(1, 30).flatmap(flags), st.integers(1, 30).flatmap(flags))
def test_shapes_are_numbers_of_a_fixed_count(first: list[bool], second: list[bool]) -> None:
    rows = leakage.shape_features([Mask(np.array(first)), Mask(np.array(second))])
    assert rows.shape[0] == 2
    assert np.isfinite(rows).all()
    assert np.array_equal(rows[1], leakage.shape_features([Mask(np.array(second))])[0])


# Leaks


def at_random(generator: np.random.Generator, n_words: int, _code: int) -> Flags:
    return np.isin(np.arange(n_words), generator.choice(n_words, size=-(-n_words // 5), replace=False))


def by_position(generator: np.random.Generator, n_words: int, code: int) -> Flags:
    half = n_words // 2
    return np.isin(np.arange(n_words), half * code + generator.choice(half, size=-(-n_words // 5), replace=False))


def by_runs(generator: np.random.Generator, n_words: int, code: int) -> Flags:
    """Keep eight words: in a row, or every other one."""
    start = int(generator.integers(n_words // 2))
    return np.isin(np.arange(n_words), start + np.arange(8) * (1 + code))


def planted(choose: Choose, n_masks: int, seed: int, n_labels: int = 2) -> tuple[list[Mask], list[str]]:
    generator = np.random.default_rng(seed)
    codes = generator.integers(n_labels, size=n_masks)
    masks = [Mask(choose(generator, int(generator.integers(40, 120)), int(code))) for code in codes]
    return masks, ["abc"[code] for code in codes]


def test_a_label_in_the_parity_of_the_length_is_caught() -> None:
    masks, _ = planted(at_random, 120, seed=0)
    leaks = leakage.find_leaks(masks, [str(mask.kept.sum() % 2) for mask in masks])
    assert (leaks.mask.found, leaks.length.found, leaks.document.found) == (True, True, False)
    assert min(leaks.mask.score, leaks.length.score) > 0.95
    length = leaks.length
    assert len(leaks.verdicts) == 3  # no remark on documents
    assert leaks.verdicts[1] == (
        f"The length of the rationale alone gives the label away for the most part: balanced accuracy "
        f"{length.score:.3f}; with shuffled labels {length.shuffled_mean:.3f} on average and at most "
        f"{length.shuffled_high:.3f} in 95 % of the shuffles; p = 0.01."
    )


@pytest.mark.parametrize("choose", [by_position, by_runs])
def test_a_label_in_the_places_is_caught_and_not_blamed_on_the_length(choose: Choose) -> None:
    leaks = leakage.find_leaks(*planted(choose, 120, seed=1), target="decision")
    assert (leaks.mask.found, leaks.length.found) == (True, False)
    assert leaks.mask.score > 0.95
    assert leaks.verdicts[0].startswith("The mask alone gives the decision away for the most part: ")


def test_harmless_masks_are_rarely_suspected() -> None:
    """With 19 shuffles, p is .05 in 1 of 20 cases; 6 or more of 30 would be too many."""
    ps = []
    for seed in range(30):
        masks, labels = planted(at_random, 60, seed, n_labels=2 + seed % 2)
        counts = np.array([mask.kept.sum() for mask in masks])
        shown = leakage.number_features(counts) if seed // 2 % 2 else leakage.shape_features(masks)
        codes = np.array(["abc".index(label) for label in labels])
        ps.append(leakage.run_probes(shown, np.hstack([shown, leakage.count_features(masks)]), codes, 19, seed)[-1])
    assert sum(p <= 0.05 for p in ps) <= 5
    assert 0.3 < np.mean(ps) < 0.75


RULES: dict[str, Callable[[NDArray[np.int64]], NDArray[Any]]] = {
    "more than half of them": lambda counts: counts > np.median(counts),
    "odd or even": lambda counts: counts % 2,
    "neither few nor many": lambda counts: (counts > np.quantile(counts, 0.3)) & (counts <= np.quantile(counts, 0.7)),
    "few, some, many": lambda counts: np.searchsorted(np.quantile(counts, [1 / 3, 2 / 3]), counts),
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("longest", [31, 120, 900])
def test_labels_that_depend_on_the_number_of_words_alone_are_always_caught(rule: str, longest: int) -> None:
    generator = np.random.default_rng(longest)
    masks = [Mask(at_random(generator, int(size), 0)) for size in generator.integers(5, longest, size=80)]
    labels = RULES[rule](np.array([mask.kept.sum() for mask in masks])).astype(int)
    leak = leakage.find_length_leak(masks, [str(label) for label in labels])
    assert leak.found
    assert leak.score > 0.9
    assert leak.verdict.startswith("The number of words shown alone gives the label away for the most part: ")


def test_the_same_seed_gives_the_same_result() -> None:
    masks, labels = planted(at_random, 60, seed=0)
    first, second, third = (leakage.find_length_leak(masks, labels, seed=seed) for seed in (1, 1, 2))
    assert first == second != third
    assert not first.found
    assert 0.45 < first.shuffled_mean < first.shuffled_high < 0.7


@pytest.fixture
def probed(monkeypatch: pytest.MonkeyPatch) -> list[list[float]]:
    """The numbers of words of the masks that each call probes, without probing them."""
    kept: list[list[float]] = []

    def run(features: Any, *_: Any) -> tuple[float, ...]:
        kept.append(features[:, 0].tolist())
        return (0.5, 0.5, 0.5, 0.5, 1.0)

    monkeypatch.setattr("fresh.audit.leakage.run_probes", run)
    return kept


def test_one_mask_of_each_text_is_sampled(probed: list[list[float]]) -> None:
    texts = [str(number) for number in range(40)] * 3
    masks = [Mask(np.arange(200) < number + 1) for number in range(120)]
    leaks = leakage.find_leaks(masks, ["a", "b"] * 60, texts=texts)
    leakage.find_leaks(masks, ["a", "b"] * 60, texts=texts, seed=1)
    assert leaks.mask.n_masks == 40
    rows = [int(kept) - 1 for kept in probed[0]]
    assert sorted(row % 40 for row in rows) == list(range(40))
    assert len({row // 40 for row in rows}) == 3
    assert probed[0] == probed[1] != probed[3]


def test_of_many_masks_some_are_sampled(probed: list[list[float]]) -> None:
    masks = [Mask.full(1 + number % 50) for number in range(2 * leakage.MAX_MASKS)]
    for n_masks in (leakage.MAX_MASKS, 2 * leakage.MAX_MASKS):
        assert leakage.find_length_leak(masks[:n_masks], ["a", "b"] * (n_masks // 2)).n_masks == leakage.MAX_MASKS
    whole, sample = probed
    assert whole == [len(mask) for mask in masks[: leakage.MAX_MASKS]]
    assert whole != sample


@pytest.mark.usefixtures("probed")
def test_rare_labels_are_left_out_by_name() -> None:
    masks, labels = planted(at_random, 60, seed=0)
    leaks = leakage.find_leaks(masks, ["rare"] * 9 + labels[9:])
    assert (leaks.mask.n_masks, leaks.mask.n_labels, leaks.mask.left_out) == (51, 2, ("rare",))
    assert leaks.verdicts[-1] == "Left out for having fewer than 10 masks: rare."


@pytest.mark.parametrize("labels", ["ab" * 20, "aab" * 15])  # one more often than the other is no success
def test_masks_that_are_all_alike_give_nothing_away(labels: str) -> None:
    leaks = leakage.find_leaks([mask("x--x")] * len(labels), list(labels))
    assert leaks.mask.score == leaks.mask.shuffled_mean == leaks.mask.shuffled_high < 0.51
    assert leaks.mask.p == 1


@pytest.mark.parametrize(("score", "how"), [(0.54, "a little"), (0.6, "in part"), (0.8, "for the most part")])
def test_a_verdict_says_how_much(score: float, how: str) -> None:
    leak = leakage.Leak("the mask alone", "label", score, 0.5, 0.5, 0.53, 0.01, n_masks=100, n_labels=2)
    says = f"The mask alone gives the label away {how}: balanced accuracy {score:.3f};"
    assert leak.verdict.startswith(says)
    assert replace(leak, p=0.02).verdict.startswith("No clear sign that the mask alone gives the label away: ")


@given(st.lists(st.integers(0, 2), min_size=30, max_size=60), st.integers(0, 5))
def test_every_fold_has_its_share_of_each_label(values: list[int], seed: int) -> None:
    codes = np.array(values)
    folds = leakage.assign_folds(codes, np.random.default_rng(seed))
    for code in set(values):
        counts = np.bincount(folds[codes == code], minlength=leakage.N_FOLDS)
        assert counts.max() - counts.min() <= 1


@pytest.mark.parametrize(
    ("n_masks", "labels", "options", "message"),
    [
        (2, "a", {}, r"labels must have one item for each of the 2 masks, got 1"),
        (2, "ab", {"texts": ["one"]}, r"texts must have one item for each of the 2 masks, got 1"),
        (0, "", {}, r"masks must have at least one item"),
        (1, "a", {"n_shuffles": 50}, r"n_shuffles must be at least 99.*0\.01, got 50"),
    ],
)
def test_what_cannot_be_checked_is_refused(n_masks: int, labels: str, options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        leakage.find_leaks([mask("x-")] * n_masks, list(labels), **options)


# Verdicts


def explanations(masks: Sequence[Mask], query: str = "") -> list[Explanation]:
    words = ([f"w{n}"] * len(mask) for n, mask in enumerate(masks))
    documents = [Document.from_words(row, tuple(query.split()), str(n)) for n, row in enumerate(words)]
    return [cheats.explained(*row, cheats.sure("pos")) for row in zip(documents, masks, strict=True)]


LABELS = ["pos", "neg"] * 40


def test_without_a_choice_or_two_labels_masks_are_not_checked() -> None:
    whole = leakage.check_masks(explanations([Mask.full(3)] * 80), LABELS, "label")
    assert (whole.name, whole.found, whole.evidence) == ("masks and labels", "not run", ())
    assert "keeps all words" in whole.says
    items = explanations([mask("x--")] * 4)
    for found in (leakage.check_masks(items, ["pos"] * 4, "label"), leakage.check_length(items, ["pos"] * 4)):
        assert found.found == "not run"
        assert found.says.startswith("Fewer than two labels have 10 masks or more, so no label can be given away")


def test_documents_of_another_length_are_no_leak() -> None:
    generator = np.random.default_rng(0)
    sizes = [int(generator.integers(20, 30) if label == "pos" else generator.integers(5, 12)) for label in LABELS]
    items = explanations([Mask.from_spans([(0, size // 2)], size) for size in sizes])
    found = leakage.check_masks(items, LABELS, "label")
    assert found.found == "holds"
    assert found.evidence[-1] == leakage.DOCUMENT_LENGTH_NOTE
    assert found.says.endswith(f"; p = 0.01. {leakage.DOCUMENT_LENGTH_NOTE}")
    shown = leakage.check_length(items, LABELS)
    assert shown.found == "look here"
    assert shown.says.startswith("The number of words shown alone gives the label away for the most part: balanced ")
    assert shown.evidence == ("80 rationales of 2 labels.", leakage.COUNTING_NOTE)


def test_the_number_of_words_shown_is_judged_by_itself() -> None:
    sizes = np.random.default_rng(3).integers(2, 12, size=80)
    found = leakage.check_length(explanations([Mask.from_spans([(0, int(size))], 20) for size in sizes]), LABELS)
    assert found.found == "holds"
    assert found.says.startswith("No clear sign that the number of words shown alone gives the label away: balanced ")
    assert found.evidence == ("80 rationales of 2 labels.",)


@pytest.mark.parametrize("query", ["", "why"])
def test_only_with_queries_do_masks_share_a_text(query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = leakage.Leak("", "label", 1.0, 1.0, 1.0, 1.0, 1.0, 0, 1)
    find = Mock(return_value=leakage.Leaks(nothing, nothing, nothing))
    monkeypatch.setattr(leakage, "find_leaks", find)
    masks, texts = [mask("x-")] * 2, ["w0 w0", "w1 w1"] if query else None
    leakage.check_masks(explanations(masks, query), ["pos"] * 2, "label", 7)
    find.assert_called_once_with(masks, ["pos"] * 2, "label", texts, seed=7)


def test_checks_are_imported_without_heavy_packages() -> None:
    checks = ("metrics.bootstrap", "metrics.significance", "audit.leakage", "audit.duplicates", "audit.degenerate")
    modules = ", ".join(f"fresh.{check}" for check in checks)
    command = f"import sys, {modules}; print({{'torch', 'sklearn', 'scipy'}} & sys.modules.keys())"
    result = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "set()"
