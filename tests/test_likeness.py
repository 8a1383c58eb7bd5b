import pytest
from hypothesis import given
from hypothesis import strategies as st

from fresh.config import _similarity, nearest_name

SETTINGS = (
    "epochs",
    "ratio",
    "seed",
    "scorer",
    "layer",
    "text",
    "label",
    "long",
    "method",
    "dropout",
    "samples",
    "learning_rate",
)
NEAR = {"epoch": "epochs", "Epochs": "epochs", "n_epochs": "epochs", "learningrate": "learning_rate", "sede": "seed"}
FAR = (
    "lr",
    "corpora",
    "dataset",
    "documents",
    "length",
    "workers",
    "out",
    "name",
    "names",
    "read",
    "row",
    "k",
    "model",
)


@pytest.mark.parametrize("name", NEAR)
def test_a_slip_is_recognised(name: str) -> None:
    assert nearest_name(name, SETTINGS) == NEAR[name]


@pytest.mark.parametrize("name", FAR)
def test_another_word_is_not_taken_for_a_slip(name: str) -> None:
    assert nearest_name(name, SETTINGS) is None


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("sts", ("sst", "agnews"), "sst"),
        ("SST-2", ("sst", "agnews"), "sst"),
        ("stance", ("sst", "agnews"), None),
        ("grad", ("attention_gradient", "gradient"), "gradient"),
        ("shap", ("lime", "kernel_shap"), "kernel_shap"),
        ("lei", ("lime", "kernel_shap"), None),
        ("full", ("ours", "full text"), "full text"),
        ("attention", ("FRESH, gradient", "FRESH, attention"), "FRESH, attention"),
        ("rationale_length", ("rationale", "ratio"), None),
        ("anything", (), None),
    ],
)
def test_a_part_stands_for_the_whole_if_it_says_enough(name: str, known: tuple[str, ...], meant: str | None) -> None:
    assert nearest_name(name, known) == meant


@given(st.text(min_size=1))
def test_a_name_is_most_like_itself(name: str) -> None:
    assert _similarity(name, name) == 1
