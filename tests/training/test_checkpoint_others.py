"""A training that is judged in several ways keeps the best state by each."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from fresh.training.loop import RunContext
from shared_kept_others import N_EPOCHS, OWN, judged
from shared_training import CONFIG, fit_on, loss_of, network, same, train

SCORES = st.lists(st.sampled_from([0.1, 0.2, 0.3]), min_size=N_EPOCHS, max_size=N_EPOCHS)


def taken_up(context: RunContext) -> nn.Sequential:
    """Go on with a training that is over."""
    model = network()
    config = replace(CONFIG, epochs=N_EPOCHS, patience=N_EPOCHS)
    fit_on(model, loss_of(model), lambda: pytest.fail("an epoch was trained"), config, context)
    return model


@settings(max_examples=20, deadline=None)
@given(first=SCORES, second=SCORES)
def test_each_measure_keeps_what_a_training_by_it_alone_would(
    first: list[float], second: list[float], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("kept")
    model = judged(folder, {"own": OWN, "first": first, "second": second})
    config = replace(CONFIG, epochs=N_EPOCHS, patience=N_EPOCHS)
    context = RunContext("net", folder=folder)
    assert same(model, train(config, OWN))
    assert same(taken_up(context), model)
    for name, scores in (("first", first), ("second", second)):
        assert same(taken_up(context.within(name)), train(config, scores)), name


def test_a_training_that_was_broken_off_knows_what_was_best_by_each(tmp_path: Path) -> None:
    scores = {"own": OWN, "other": [0.4, 0.2, 0.3, 0.1]}
    judged(tmp_path, {name: values[:2] for name, values in scores.items()}, n_epochs=2)
    judged(tmp_path, {name: values[2:] for name, values in scores.items()})
    config = replace(CONFIG, epochs=N_EPOCHS, patience=N_EPOCHS)
    assert same(taken_up(RunContext("net", folder=tmp_path).within("other")), train(config, scores["other"]))


def test_a_training_that_was_judged_otherwise_is_not_gone_on_with(tmp_path: Path) -> None:
    judged(tmp_path, {"own": OWN[:2], "other": OWN[:2]}, n_epochs=2)
    with pytest.raises(ValueError, match=r"is of another network\. Delete the file to begin anew\.$"):
        judged(tmp_path, {"own": OWN, "another": OWN})
