"""What tests of kept others share with others."""

from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from fresh.training.checkpoint import Over
from fresh.training.loop import RunContext, TrainingJob, fit
from shared_training import CONFIG, loss_of, network

N_EPOCHS = 4


OWN = [0.1, 0.2, 0.3, 0.4]


def judged(folder: Path, scores: dict[str, list[float]], n_epochs: int = N_EPOCHS, over: Over = "all") -> nn.Sequential:
    """Train a network; the first scores are those that the training goes by."""
    model, left = network(), {name: iter(values) for name, values in scores.items()}
    first, *others = ((lambda name=name: next(left[name])) for name in scores)
    config = replace(CONFIG, epochs=n_epochs, patience=N_EPOCHS)
    named = dict(zip(list(scores)[1:], others, strict=True))
    context = RunContext("net", folder=folder, over=over)
    fit(TrainingJob(model, [3] * 40, loss_of(model), first, config, context, torch.device("cpu"), others=named))
    return model
