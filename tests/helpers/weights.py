"""Changes to saved weights."""

import json
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

Weights = dict[str, Tensor]
Change = Callable[[Weights], Weights]


def rewrite(folder: Path, change: Change) -> None:
    path = folder / "model.safetensors"
    save_file(change(load_file(path)), path, {"format": "pt"})


def configure(folder: Path, **settings: object) -> None:
    """Change settings in config.json."""
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | settings), encoding="utf-8")


def without(*ends: str) -> Change:
    return lambda weights: {key: value for key, value in weights.items() if not key.endswith(ends)}


def renamed(old: str, new: str) -> Change:
    return lambda weights: {key.replace(old, new): value for key, value in weights.items()}


def prefixed(prefix: str) -> Change:
    return lambda weights: {prefix + key: value for key, value in weights.items()}


def with_more(*keys: str) -> Change:
    return lambda weights: {**weights, **{key: torch.arange(3.0) for key in keys}}


def with_number(key: str, number: float) -> Change:
    def change(weights: Weights) -> Weights:
        weights[key].view(-1)[-1] = number
        return weights

    return change
