import re
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fresh.experiments.search
import fresh.methods.registry
import small
from experiments import full_disk
from fresh.data.splits import Splits
from fresh.errors import ConfigError, DataError, MissingExtraError, OutputError
from fresh.experiments.search import SPACES, Span, _read_space, _to_toml, read_span, read_spans, scale, search
from fresh.pipeline import resolve_settings, train
from fresh.progress import SILENT
from small import Saying

Find = Callable[..., dict[str, float]]
pytestmark = pytest.mark.filterwarnings("ignore:The gate has collapsed")  # too few epochs


@pytest.fixture(scope="module")
def splits(toy: Splits) -> Splits:
    return small.some(toy, 16, 8)


@pytest.fixture(scope="module")
def settings(encoders: dict[str, Path]) -> dict[str, Any]:
    return small.run_settings(encoders["bert"], epochs=1, method="lei")


@pytest.fixture
def find(splits: Splits, settings: dict[str, Any], tmp_path: Path) -> Find:
    """Searches for the best settings, in one trial and in the same folder by default."""
    usual = {"out": tmp_path / "search", "trials": 1, "progress": SILENT, **settings}
    return lambda data=splits, **options: search(data, **{**usual, **options})


# Spaces


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("lambda_1=0.01:1:log", Span("lambda_1", (), 0.01, 1, log=True)),
        ("lambda_1=0:1", Span("lambda_1", (), 0, 1)),
        ("lambda_2=0,0.5,1", Span("lambda_2", (0, 0.5, 1))),
        ("layers=1,2", Span("layers", (1, 2))),
        ("learning_rate=1e-5", Span("learning_rate", (1e-5,))),
    ],
)
def test_values_are_read(text: str, span: Span) -> None:
    assert read_span(text, "lei") == span


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *(
            (f"lambda_1{values}", f"'lambda_1{values}' cannot be searched.")
            for values in (
                *("", "=", "=much", "=1:0", "=1:1", "=0:1:log", "=0:1:linear", "=0.1:1:log:log", "=0.1:much", "=1,,2"),
                "=nan:1",
            )
        ),
        ("lambda_3=0:1", "lambda_3 is not a setting of the method lei. Did you mean lambda_2?"),
        ("epoch=1,2", "epoch is not a setting of the method lei. Did you mean epochs?"),
        ("discretizer=top_k,contiguous", "discretizer has no numbers to draw from."),
        ("discretizer=top_k:contiguous", "discretizer has no numbers to draw from."),
        ("discretizer=1,2", "discretizer has no numbers to draw from."),
        ("schedule=constant,linear", "schedule has no numbers to draw from."),
        ("layers=1:3", "layers must be a whole number. Write layers=one,two,three"),
    ],
)
def test_values_that_cannot_be_searched_are_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_span(text, "lei")
    assert str(caught.value).startswith(message)


def test_default_spaces_are_valid_and_that_of_lei_is_the_papers() -> None:
    found = _read_space((), resolve_settings("x.csv", None, None, {"method": "lei"}))
    assert found == [Span("lambda_1", (), 0.01, 1, log=True), Span("lambda_2", (0, 0.5, 1, 2), factor="lambda_1")]
    assert search.__kwdefaults__["trials"] == 20  # type: ignore[index]


def test_a_value_may_be_a_multiple_of_another() -> None:
    spans = read_spans(["lambda_2=1,2 *lambda_1", "lambda_1 = 0.1:1"], "lei")
    assert spans == [Span("lambda_2", (1, 2), factor="lambda_1"), Span("lambda_1", (), 0.1, 1)]
    [multiple, _] = read_spans(["lambda_2=0.1:1:log * lambda_1", "lambda_1=0.1:1"], "lei")
    assert multiple == Span("lambda_2", (), 0.1, 1, log=True, factor="lambda_1")
    assert scale({"lambda_2": 2.0, "lambda_1": 0.1234567891}, spans) == {"lambda_2": 0.246914, "lambda_1": 0.1234567891}
    # Folders of searches contain it, and must still be accepted.
    assert repr(Span("lambda_2", (1, 2))) == "Span(name='lambda_2', choices=(1, 2), low=0.0, high=0.0, log=False)"


@pytest.mark.parametrize("factor", ["lambda_3", "learning_rate", "lambda_2", "ratio", ""])
def test_a_multiple_of_what_is_not_drawn_itself_is_refused_by_name(factor: str) -> None:
    space = ["lambda_1=0.1:1", f"lambda_2=1,2 * {factor}", "ratio=0.1,0.2 * lambda_1"]
    with pytest.raises(ConfigError, match=rf"^lambda_2 is a multiple of '{factor}', which is not drawn by itself\."):
        read_spans(space, "lei")


def test_a_setting_is_drawn_once() -> None:
    with pytest.raises(ConfigError, match=r"^lambda_1 is drawn twice\."):
        read_spans(["lambda_1=0.1:1", "lambda_2=1,2", "lambda_1 = 0.5,2"], "lei")


def test_default_spaces_are_valid_and_other_methods_have_none() -> None:
    for method in SPACES:
        assert _read_space((), resolve_settings("x.csv", None, None, {"method": method}))
    with pytest.raises(ConfigError, match=r"The method fresh has no default search space.*space="):
        _read_space((), resolve_settings("x.csv", None, None, {}))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"space": ["lambda_1=-1:1"]}, "lambda_1 must be at least 0, got -1.0"),
        ({"space": ["ratio=0.1,1.5"]}, "ratio must be .*got 1.5"),
        ({"space": ["lambda_1=1:2", "ratio=0.1,0.6 * lambda_1"]}, "ratio must be .*got 1.2"),
        ({"space": ["epochs=1,2.5"]}, "epochs must be a whole number, got 2.5"),
        ({"trials": 0}, "trials must be at least 1, got 0"),
    ],
)
def test_invalid_values_are_refused_before_any_work(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"^{message}"):
        search(tmp_path / "none.csv", out=tmp_path / "search", method="lei", progress=SILENT, **options)
    assert list(tmp_path.iterdir()) == []


# Searches


def test_the_best_settings_of_all_trials_are_written(find: Find, settings: dict[str, Any], tmp_path: Path) -> None:
    said = Saying()
    best = find(trials=4, progress=said)
    trials = [line for line in said.lines if line.startswith("Trial")]
    shape = r"Trial (\d) of 4: lambda_1 ([\d.]+), lambda_2 ([\d.]+): dev macro-F1 (\S+) \(best (\d\.\d{3})\)"
    found = [match.groups() for match in map(re.compile(shape).fullmatch, trials) if match is not None]
    assert [number for number, *_ in found] == list("1234")
    values = [own for _, *own in found]
    assert all(0.01 <= float(first) <= 1 for first, *_ in values)
    assert {round(float(second) / float(first), 1) for first, second, *_ in values} <= {0, 0.5, 1, 2}
    assert len({first for first, *_ in values}) == 4
    scores = [float(score) for *_, score, _ in values]
    assert [float(highest) for *_, highest in values] == [max(scores[: number + 1]) for number in range(4)]
    winner = values[scores.index(max(scores))]
    assert [f"{value:.4g}" for value in best.values()] == winner[:2]
    written = tomllib.loads((tmp_path / "search/best.toml").read_text(encoding="utf-8"))
    assert written == {**settings, "method": "lei", **best}
    assert sorted(path.name for path in (tmp_path / "search").iterdir()) == ["best.toml", "search.json", "trials.log"]


def test_the_best_settings_can_be_trained_with(
    find: Find, splits: Splits, settings: dict[str, Any], tmp_path: Path
) -> None:
    space = ["lambda_1=0.1:1", "layers=1,2", "batch_size=4,8"]
    best = find(space=space, train={"weight_decay": 0.02})
    others = {name: value for name, value in settings.items() if name not in ("method", "layers", "batch_size")}
    model = train(splits, config=tmp_path / "search/best.toml", progress=SILENT, baseline=False, **others)
    assert model.settings["method"] == "lei"
    assert model.settings["lambda_1"] == best["lambda_1"]
    assert model.settings["network"]["layers"] == best["layers"]
    assert model.settings["train"]["weight_decay"] == 0.02


@given(st.lists(st.text() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.booleans()))
def test_settings_are_read_back_from_toml(values: list[Any]) -> None:
    settings = {"all": values, **dict(zip("abcdefgh", values, strict=False))}
    assert tomllib.loads(_to_toml({**settings, "none": None})) == settings


def drawn(said: Saying) -> list[str]:
    """List the values and scores of trials, without their numbers."""
    return [line.partition(": ")[2] for line in said.lines if line.startswith("Trial")]


def test_an_interrupted_search_draws_the_same(find: Find, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, first, rest = Saying(), Saying(), Saying()
    one, other = tmp_path / "whole", tmp_path / "broken"
    find(out=one, trials=3, progress=whole)
    calls = iter(range(1))

    def train_method(*arguments: Any) -> Any:
        if next(calls, None) is None:
            raise KeyboardInterrupt
        return fresh.methods.registry.train_method(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(fresh.experiments.search, "train_method", train_method)
        with pytest.raises(KeyboardInterrupt):
            find(out=other, trials=3, progress=first)
    assert drawn(first) == drawn(whole)[:1]
    find(out=other, trials=3, progress=rest)
    assert drawn(rest) == drawn(whole)[1:]
    written = (one / "best.toml").read_text(encoding="utf-8")
    assert written == (other / "best.toml").read_text(encoding="utf-8")
    (one / "best.toml").unlink()  # as if it had ended just before it wrote the file
    find(out=one, trials=3)
    assert (one / "best.toml").read_text(encoding="utf-8") == written


def test_a_search_can_start_again_after_a_full_disk(find: Find) -> None:
    with full_disk(), pytest.raises(OSError, match="No space left on device"):
        find()
    assert find()


def test_a_folder_with_another_search_is_refused(find: Find, splits: Splits, tmp_path: Path) -> None:
    find()
    before = {path.name: path.read_bytes() for path in (tmp_path / "search").iterdir()}
    with pytest.raises(ConfigError, match=r"holds a search that differs in: epochs, ratio, space, train\.seed\."):
        find(space=["lambda_1=0.1:1"], epochs=2, seed=7, ratio=0.5)
    with pytest.raises(ConfigError, match=r"differs in: data\."):
        find(Splits(splits.train[1:], splits.dev, splits.test))
    assert {path.name: path.read_bytes() for path in (tmp_path / "search").iterdir()} == before
    rising = {"out": tmp_path / "rising", "schedule": "linear"}  # its epochs affect each step, and are listed once
    find(**rising)
    with pytest.raises(ConfigError, match=r"differs in: epochs\."):
        find(**rising, epochs=2)


def test_a_folder_with_other_files_is_refused(find: Find, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    for place in (tmp_path, tmp_path / "notes.txt"):
        with pytest.raises(OutputError, match=f"^{re.escape(str(place))} .*Choose a.* folder for the search"):
            find(out=place)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_trial_may_diverge(find: Find) -> None:
    said = Saying()
    best = find(trials=6, space=["learning_rate=0.005,1e30"], progress=said)
    broken = [line for line in drawn(said) if line.startswith("learning_rate 1e+30: ")]
    assert 0 < len(broken) < len(drawn(said)) == 6
    assert all(re.search(r": no result \(.*diverged", line) for line in broken)
    assert best == {"learning_rate": 0.005}


def test_a_search_without_any_result_says_so(find: Find, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Every trial failed"):
        find(trials=2, space=["learning_rate=1e30"])
    assert not (tmp_path / "search/best.toml").exists()


def test_invalid_data_end_the_search(find: Find, splits: Splits) -> None:
    bare = Splits(tuple(map(small.unmarked, splits.train)), splits.dev, splits.test)
    with pytest.raises(DataError, match=r"^human=0\.5 .*no training document"):
        find(bare, human=0.5)


def test_documents_without_rationales_are_skipped(find: Find, toy: Splits) -> None:
    splits = Splits((*toy.train[:16], *toy.train[-4:]), (*toy.dev[:8], toy.train[-1]), toy.test[:8])
    assert list(find(splits, method="human", space=["weight_decay=0.01:0.1"])) == ["weight_decay"]


def test_a_search_needs_optuna(find: Find, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingExtraError, match=r"fresh search needs optuna\..*fresh-rationales\[search\]"):
        find()
