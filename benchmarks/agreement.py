"""How far the words that scorers choose are those that people marked, without any human rationale in training.

python benchmarks/agreement.py DATA_DIR CORPUS [--scorers attention,...] [--seeds 0,1] [--out FILE] [setting=value ...]

One support model is trained for each seed; each scorer asks it, its scores are cut in each way, and the rationales of
dev and test are compared with people's as the ERASER benchmark does. IoU-F1 is ERASER's only where DATA_DIR holds
ERASER's own tar. `spread` takes the mean of each score and of so many before and after it, before the cut.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from fresh.agreement import compare
from fresh.config import parse_assignments
from fresh.discretize import Contiguous, Discretizer, TopK
from fresh.document import Example, Explanation, Saliency
from fresh.extractor import select_read
from fresh.figures import named, unzipped
from fresh.methods.marking import has_rationale
from fresh.methods.settings import FreshConfig
from fresh.metrics import accuracy
from fresh.progress import SILENT
from fresh.rationale import Prediction
from fresh.recipe import read_splits, resolve
from fresh.scorers import make_scorer
from fresh.support import Support

SPREADS = (0, 2, 5, 10, 20)
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
    masks = select_read(cut, saliencies)
    explained = [
        Explanation(example.document, mask, nothing, saliency)
        for example, mask, saliency in zip(examples, masks, saliencies, strict=True)
    ]
    return named(compare(*unzipped(list(zip(examples, explained, strict=True)))))


def measure(
    support: Support, parts: Mapping[str, Sequence[Example]], scorer: str, config: FreshConfig
) -> list[dict[str, Any]]:
    """Try each cut of one scorer's scores."""
    asks = make_scorer(scorer, support, asdict(config.scoring))
    scores = {name: asks.score([example.document for example in part]) for name, part in parts.items()}
    rows: list[dict[str, Any]] = []
    for reach in SPREADS:
        for name, cut in (("top_k", TopK(config.one_ratio)), ("contiguous", Contiguous(config.one_ratio))):
            row: dict[str, Any] = {"scorer": scorer, "cut": name, "spread": reach}
            for part, examples in parts.items():
                wider = [spread_out(saliency, reach) for saliency in scores[part]]
                row |= {f"{part} {figure}": round(value, 4) for figure, value in agreed(examples, wider, cut).items()}
            rows.append(row)
    return rows


def main() -> None:
    """Run all seeds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data_dir", type=Path)
    parser.add_argument("corpus")
    parser.add_argument("settings", nargs="*", metavar="setting=value")
    parser.add_argument("--scorers", default=",".join(SCORING))
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--out", type=Path)
    args = parser.parse_intermixed_args()
    for seed in map(int, args.seeds.split(",")):
        run = resolve(args.corpus, args.data_dir, None, {**parse_assignments(args.settings), "seed": seed})
        assert isinstance(run.method, FreshConfig)
        splits = read_splits(args.corpus, args.data_dir, run, SILENT)
        support = Support.train(splits.train, splits.dev, run.method.classifier)
        answers = support.predict([example.document for example in splits.test])
        right = accuracy([example.label for example in splits.test], [answer.label for answer in answers])
        parts = {name: [item for item in getattr(splits, name) if has_rationale(item)] for name in ("dev", "test")}
        for scorer in args.scorers.split(","):
            for row in measure(support, parts, scorer, run.method):
                about = {"corpus": args.corpus, "settings": args.settings, "seed": seed, "full text accuracy": right}
                line = json.dumps({**about, **row})
                print(line, flush=True)
                if args.out:
                    with args.out.open("a", encoding="utf-8") as file:
                        file.write(line + "\n")


if __name__ == "__main__":
    main()
