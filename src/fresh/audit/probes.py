"""Two simple classifiers that guess labels from traces: one that weighs and adds, one that asks a few questions."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fresh._optional import optional_import
from fresh.audit.mask_features import Features

Codes = NDArray[np.int64]

N_FOLDS = 3
"""Parts of the masks, each guessed by classifiers that learnt from the others."""
PENALTY = 10.0
"""How much the logistic regression is kept from large weights."""
SETTLED = 1e-2
"""Steepness at which the logistic regression may stop: it guesses well enough."""
PURPOSE = "The check of what masks give away"


@dataclass(frozen=True, slots=True)
class Traces:
    """What each classifier sees of the masks."""

    plain: NDArray[np.float32]
    """For the tree."""
    scaled: Features
    """For the logistic regression: standardised over all masks, which uses no label."""

    @classmethod
    def of(cls, plain: Features, more: Features) -> "Traces":
        """Standardise; columns that never change are left out."""
        whole = np.hstack([plain, more])
        spread = whole.std(axis=0)
        moving = spread > 1e-9 * (1 + np.abs(whole).max(axis=0))
        scaled = (whole[:, moving] - whole[:, moving].mean(axis=0)) / spread[moving]
        return cls(plain.astype(np.float32), np.hstack([scaled, np.zeros((len(whole), 1))]))


class _Round(NamedTuple):
    """Labels, true or shuffled, and the part that each mask is in."""

    codes: Codes
    parts: Codes

    def splits(self) -> Iterator[tuple[NDArray[np.bool_], Codes, Features]]:
        """Hold out each part in turn: what is held out, and labels and weights of the others."""
        weights = 1 / np.bincount(self.codes)[self.codes]  # so that each label counts the same
        for part in range(N_FOLDS):
            held = self.parts == part
            yield held, self.codes[~held], weights[~held] / weights[~held].mean()


def measure(traces: Traces, codes: Codes, n_shuffles: int, seed: int) -> tuple[float, float, float, float, float]:
    """Guess the labels, and shuffled ones many times.

    :return: Score of each classifier, mean and 95th percentile of the better score on shuffled labels, p.
    """
    generator = np.random.default_rng(seed)
    rounds = [_Round(codes, folds(codes, generator))]
    for _ in range(n_shuffles):
        shuffled = generator.permutation(codes)
        rounds.append(_Round(shuffled, folds(shuffled, generator)))
    for module in ("sklearn.tree", "scipy.optimize"):
        optional_import(module, "sklearn", PURPOSE)  # before there are threads
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # trees grow outside of Python, at the same time
        scores = list(pool.map(lambda one: (_guess_linear(traces.scaled, one), _guess_tree(traces.plain, one)), rounds))
    best, *others = map(max, scores)
    p = (1 + sum(score >= best for score in others)) / (1 + n_shuffles)
    return *scores[0], float(np.mean(others)), float(np.percentile(others, 95)), p


def _guess_tree(seen: NDArray[np.float32], given: _Round) -> float:
    """Guess each part from the others with a small decision tree, and score all guesses together."""
    learn: Any = optional_import("sklearn", "sklearn", PURPOSE)
    trees: Any = optional_import("sklearn.tree", "sklearn", PURPOSE)
    guesses = np.zeros_like(given.codes)
    with learn.config_context(skip_parameter_validation=True):
        model = trees.DecisionTreeClassifier(max_depth=4, min_samples_leaf=5, random_state=0)
        for held, codes, weights in given.splits():
            model.fit(seen[~held], codes, weights, check_input=False)
            guesses[held] = model.predict(seen[held], check_input=False)
    return _balanced_accuracy(given.codes, guesses)


def _guess_linear(seen: Features, given: _Round) -> float:
    """Guess each part from the others with a logistic regression, and score all guesses together."""
    guesses = np.zeros_like(given.codes)
    for held, codes, weights in given.splits():
        slopes, offsets = _regress(seen[~held], codes, weights)
        guesses[held] = np.argmax(slopes @ seen[held].T + offsets, axis=0)
    return _balanced_accuracy(given.codes, guesses)


def _regress(seen: Features, codes: Codes, weights: Features) -> tuple[Features, Features]:
    """Fit a logistic regression; of two labels, one needs no weights of its own.

    scikit-learn's gives the same, but takes several times as long to get ready as to fit something so small.

    :return: Weights and offset of each label. Shapes: (labels, features) and (labels, 1).
    """
    optimize: Any = optional_import("scipy.optimize", "sklearn", PURPOSE)
    wanted = np.arange(codes.max() + 1)[:, None] == codes  # (labels, masks)
    free = 1 if len(wanted) == 2 else 0  # labels with weights come after it
    shares, penalty = weights / weights.sum(), PENALTY / weights.sum()
    shape = len(wanted) - free, seen.shape[1] + 1

    def loss(flat: Features) -> tuple[float, Features]:
        slopes, offsets = np.split(flat.reshape(shape), [-1], axis=1)
        logits = np.zeros(wanted.shape)
        logits[free:] = slopes @ seen.T + offsets
        logits -= logits.max(axis=0)
        total = np.log(np.exp(logits).sum(axis=0))
        missed = shares * (np.exp(logits - total) - wanted)[free:]
        value = shares @ (total - logits[codes, places]) + penalty / 2 * (slopes**2).sum()
        gradient = np.hstack([missed @ seen + penalty * slopes, missed.sum(axis=1, keepdims=True)])
        return float(value), gradient.ravel()

    places = np.arange(len(codes))
    options = {"maxiter": 100, "maxls": 50, "gtol": SETTLED, "ftol": 64 * np.finfo(float).eps}
    found = optimize.minimize(loss, np.zeros(shape).ravel(), method="L-BFGS-B", jac=True, options=options)
    slopes, offsets = np.split(np.vstack([np.zeros((free, shape[1])), found.x.reshape(shape)]), [-1], axis=1)
    return slopes, offsets


def folds(codes: Codes, generator: np.random.Generator) -> Codes:
    """Give each mask a part, with the same mix of labels in each."""
    order = generator.permutation(len(codes))
    order = order[np.argsort(codes[order], kind="stable")]
    parts = np.empty_like(codes)
    parts[order] = np.arange(len(codes)) % N_FOLDS
    return parts


def _balanced_accuracy(gold: Codes, guesses: Codes) -> float:
    """Take the mean over labels of the share that was guessed right."""
    right = np.bincount(gold, weights=gold == guesses)
    return float((right / np.bincount(gold)).mean())
