"""How far the words that scorers choose are those that people marked.

python benchmarks/agreement.py DATA_DIR CORPUS [--scorers attention,...] [--seeds 0,1] [--out FILE] [setting=value ...]

One support model is trained for each seed; each scorer asks it, its scores are cut in each way, and the rationales of
dev and test are compared with people's as the ERASER benchmark does. IoU-F1 is ERASER's only where DATA_DIR holds
ERASER's own tar. `spread` takes the mean of each score and of so many before and after it, before the cut. The scorer
`people` is a tagger taught by people's rationales; all others never see one. `--scores DIR` keeps all scores there, as
.npz files, so that other cuts can be tried without training again. Several seeds are also measured together;
`--vote FILE.npz ...` lets models of such files vote, and trains nothing.
"""

import argparse
import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from fresh.attribution import Scorer, make_scorer
from fresh.attribution.random import Random
from fresh.attribution.support_model import SupportModel
from fresh.config import parse_assignments
from fresh.data.splits import Splits
from fresh.document import Example, Explanation, Saliency
from fresh.evaluation.measures import agreement_figures
from fresh.methods.config import FreshConfig
from fresh.methods.rationales import has_rationale, make_final_scorer
from fresh.metrics.classification import accuracy
from fresh.metrics.plausibility import measure_agreement
from fresh.pipeline import read_splits, resolve_settings
from fresh.progress import SILENT
from fresh.rationale import Prediction
from fresh.selection.discretizers import Contiguous, Discretizer, TopK
from fresh.selection.extractors import select_masks
from fresh.training.loop import RunContext

SPREADS = (0, 2, 5, 10, 20)
PEOPLE = "people"
Scores = Mapping[str, Sequence[Saliency]]
SCORING = ("attention", "gradient", "attention_gradient", "integrated_gradients", "occlusion", "random")


def spread_out(saliency: Saliency, reach: int) -> Saliency:
    """Take the mean of each score and of its neighbours."""
    if not reach:
        return saliency
    scores = np.asarray(saliency.scores, dtype=np.float64)
    window = np.ones(2 * reach + 1)
    summed, counts = (
        np.convolve(values, window)[reach : reach + len(scores)] for values in (scores, np.ones_like(scores))
    )
    return Saliency(summed / counts, saliency.target, saliency.id, saliency.n_read)


def agreed(examples: Sequence[Example], saliencies: Sequence[Saliency], cut: Discretizer) -> dict[str, float]:
    """Cut scores and compare the rationales with people's."""
    nothing = Prediction("", {"": 1.0})
    masks = select_masks(cut, saliencies)
    explained = [
        Explanation(example.document, mask, example.document.cut(mask), nothing, saliency)
        for example, mask, saliency in zip(examples, masks, saliencies, strict=True)
    ]
    return agreement_figures(measure_agreement(examples, explained))


class Asked:
    """Scorers of one seed, their support model trained when first asked for."""

    def __init__(self, splits: Splits, config: FreshConfig) -> None:
        self.splits, self.config = splits, config

    @functools.cached_property
    def support(self) -> SupportModel:
        """Train the support model."""
        return SupportModel.train(self.splits.train, self.splits.dev, self.config)

    @functools.cached_property
    def accuracy(self) -> float:
        """Its share of right answers on test."""
        answers = self.support.predict([example.document for example in self.splits.test])
        return accuracy([example.label for example in self.splits.test], [answer.label for answer in answers])

    def about(self, scorer: str) -> dict[str, float]:
        """How good the model is that the scorer asks."""
        return {} if scorer == PEOPLE else {"full text accuracy": self.accuracy}

    def scorer(self, name: str) -> Scorer:
        """Make a scorer, or the tagger that people teach."""
        if name != PEOPLE:
            return make_scorer(name, self.support, asdict(self.config.scoring))
        taught = replace(self.config, tagging=replace(self.config.tagging, tagger=True, human=1.0))
        return make_final_scorer(self.splits, taught, Random, RunContext())


def measure(scores: Scores, parts: Mapping[str, Sequence[Example]], config: FreshConfig) -> list[dict[str, Any]]:
    """Try each cut of one scorer's scores."""
    rows: list[dict[str, Any]] = []
    for reach in SPREADS:
        for name, cut in (("top_k", TopK(config.one_ratio)), ("contiguous", Contiguous(config.one_ratio))):
            row: dict[str, Any] = {"cut": name, "spread": reach}
            for part, examples in parts.items():
                wider = [spread_out(saliency, reach) for saliency in scores[part]]
                row |= {f"{part} {figure}": round(value, 4) for figure, value in agreed(examples, wider, cut).items()}
            rows.append(row)
    return rows


def together(seeds: Sequence[Scores]) -> Scores:
    """Let several models vote: the mean of the places that each gives a word among those of its document."""
    return {
        part: [
            replace(
                of_seeds[0], scores=np.mean([np.argsort(np.argsort(saliency.scores)) for saliency in of_seeds], axis=0)
            )
            for of_seeds in zip(*(scores[part] for scores in seeds), strict=True)
        ]
        for part in seeds[0]
    }


def tell(args: argparse.Namespace, about: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> None:
    """Print rows, and add them to the file."""
    for row in rows:
        line = json.dumps({"corpus": args.corpus, "settings": args.settings, **about, **row})
        print(line, flush=True)
        if args.out:
            with args.out.open("a", encoding="utf-8") as file:
                file.write(line + "\n")


def keep_scores(path: Path, scores: Scores) -> None:
    """Write all scores of one scorer to a file, one document after the other."""
    path.parent.mkdir(parents=True, exist_ok=True)
    dev, test = (np.concatenate([saliency.scores for saliency in scores[part]]) for part in ("dev", "test"))
    np.savez_compressed(path, dev=dev.astype(np.float32), test=test.astype(np.float32))


def vote(args: argparse.Namespace) -> None:
    """Measure models of which the scores were kept, together."""
    run = resolve_settings(args.corpus, args.data_dir, None, parse_assignments(args.settings))
    assert isinstance(run.method, FreshConfig)
    splits = read_splits(args.corpus, args.data_dir, run, SILENT)
    parts = marked_parts(splits)
    scores = together([read_scores(path, parts) for path in args.vote])
    tell(args, {"vote": [path.stem for path in args.vote]}, measure(scores, parts, run.method))


def read_scores(path: Path, parts: Mapping[str, Sequence[Example]]) -> Scores:
    """Read what :func:`keep_scores` wrote."""
    kept = np.load(path)
    return {
        part: [
            Saliency(scores.astype(np.float64), "", item.document.id)
            for item, scores in zip(
                items, np.split(kept[part], np.cumsum([len(item.document.words) for item in items])[:-1]), strict=True
            )
        ]
        for part, items in parts.items()
    }


def marked_parts(splits: Splits) -> dict[str, list[Example]]:
    """Take the documents of dev and test that people marked words of."""
    return {"dev": list(filter(has_rationale, splits.dev)), "test": list(filter(has_rationale, splits.test))}


def main() -> None:
    """Run all seeds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data_dir", type=Path)
    parser.add_argument("corpus")
    parser.add_argument("settings", nargs="*", metavar="setting=value")
    parser.add_argument("--scorers", default=",".join(SCORING))
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--scores", type=Path, metavar="DIR")
    parser.add_argument("--vote", type=Path, nargs="+", metavar="FILE")
    args = parser.parse_intermixed_args()
    if args.vote:
        vote(args)
    else:
        train_and_measure(args)


def train_and_measure(args: argparse.Namespace) -> None:
    """Train for each seed, and measure each scorer."""
    found: dict[str, list[Scores]] = {}
    for seed in map(int, args.seeds.split(",")):
        run = resolve_settings(args.corpus, args.data_dir, None, {**parse_assignments(args.settings), "seed": seed})
        assert isinstance(run.method, FreshConfig)
        splits = read_splits(args.corpus, args.data_dir, run, SILENT)
        parts = marked_parts(splits)
        asked = Asked(splits, run.method)
        for name in args.scorers.split(","):
            scorer = asked.scorer(name)
            scores = {part: scorer.score([item.document for item in items]) for part, items in parts.items()}
            found.setdefault(name, []).append(scores)
            if args.scores:
                keep_scores(args.scores / f"{name}-{seed}.npz", scores)
            tell(args, {"seed": seed, "scorer": name, **asked.about(name)}, measure(scores, parts, run.method))
    for name, seeds in found.items():
        if len(seeds) > 1:
            tell(args, {"seeds together": args.seeds, "scorer": name}, measure(together(seeds), parts, asked.config))


if __name__ == "__main__":
    main()
