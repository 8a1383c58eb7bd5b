"""Test macro-F1 of a method on a corpus, the share of words it reads, and how far that agrees with people.

python benchmarks/methods.py DATA_DIR CORPUS METHOD [--seeds 0,1,2] [--out FILE.jsonl] [setting=value ...]

DATA_DIR holds the corpus (see `fresh.data.corpora`). Settings are those of `fresh train`, for example scorer=attention
tagger=true human=0.2. A line of JSON is printed, and added to the file, for each seed. `--keep DIR` keeps support
models there, for other runs of the same corpus, seeds and networks, which then train only what comes after.
"""

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fresh.config import parse_assignments
from fresh.data.splits import Splits
from fresh.document import Example, Explanation
from fresh.evaluation.evaluation import explain_all, share_unread
from fresh.evaluation.warnings import drop_too_long_splits
from fresh.experiments.worker import agreement
from fresh.methods.baselines import keep_annotated
from fresh.methods.registry import train_method
from fresh.metrics.classification import macro_f1
from fresh.pipeline import RunSettings, read_splits, resolve_settings
from fresh.progress import SILENT
from fresh.rationalizer import Rationalizer
from fresh.training.feature_cache import FeatureStore
from fresh.training.loop import RunContext

AT = (0.05, 0.1, 0.2, 0.3, 0.5)
"""Ratios at which a model is tested that serves a range."""


def measure(model: Rationalizer, splits: Splits, ratio: float | None = None) -> dict[str, float]:
    """Test a model: labels, length, and words that people marked too."""
    started = time.perf_counter()
    documents = [example.document for example in splits.test]
    explained = explain_all(model, documents, SILENT, "") if ratio is None else model.explain(documents, ratio=ratio)
    seconds = time.perf_counter() - started
    masks = [item.mask.kept for item in explained]
    answers = model.explain([example.document for example in splits.dev], ratio=ratio)
    return {
        "dev_macro_f1": score(splits.dev, answers, model.labels),
        "macro_f1": score(splits.test, explained, model.labels),
        "kept": float(np.concatenate(masks).mean()),
        **agreement(splits.test, explained),
        **{f"dev {name}": value for name, value in agreement(splits.dev, answers).items()},
        "explain_seconds": seconds,
        "unread": share_unread(model, documents),
    }


def score(examples: Sequence[Example], explained: Sequence[Explanation], labels: Sequence[str]) -> float:
    """Compute the macro-F1 of explanations."""
    return macro_f1([item.label for item in examples], [item.prediction.label for item in explained], labels)


def run_seed(run: RunSettings, splits: Splits, feature_store: FeatureStore, keep: Path | None) -> list[dict[str, Any]]:
    """Train once and test; where a range of ratios is served, at several of them."""
    context = RunContext(feature_store=feature_store, folder=keep)
    for network in keep.glob("*") if keep and keep.exists() else ():
        if not network.name.startswith("support"):  # it belongs to other settings
            network.unlink()
    started = time.perf_counter()
    trained = train_method(run.config.method, splits, run.method, context, None)
    about = {"seconds": time.perf_counter() - started, "notes": context.notes}
    if trained.support is not None:
        answers = trained.support.predict([example.document for example in splits.test])
        gold, given = [example.label for example in splits.test], [answer.label for answer in answers]
        about["full_text_macro_f1"] = macro_f1(gold, given, splits.labels)
    served = trained.model.ratios
    ratios = [None] if served is None else [ratio for ratio in AT if served[0] <= ratio <= served[1]]
    return [{**about, "at": ratio, **measure(trained.model, splits, ratio)} for ratio in ratios]


def main() -> None:
    """Run all seeds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data_dir", type=Path)
    parser.add_argument("corpus")
    parser.add_argument("method")
    parser.add_argument("settings", nargs="*", metavar="setting=value")
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--documents", type=int, help="documents of each split, at most, for a quick look")
    parser.add_argument("--keep", type=Path, metavar="DIR")
    parser.add_argument("--out", type=Path)
    args = parser.parse_intermixed_args()
    given = {"method": args.method, **parse_assignments(args.settings)}
    feature_store: FeatureStore | None = None
    for seed in map(int, args.seeds.split(",")):
        run = resolve_settings(args.corpus, args.data_dir, None, {**given, "seed": seed})
        feature_store = feature_store or FeatureStore(run.method.train.engine)
        splits = read_splits(args.corpus, args.data_dir, run, SILENT)
        splits = Splits(*(part[: args.documents] for part in (splits.train, splits.dev, splits.test)))
        splits = drop_too_long_splits(splits, run.method.network, False, SILENT)
        splits = keep_annotated(splits, SILENT) if args.method == "human" else splits
        for found in run_seed(run, splits, feature_store, args.keep and args.keep / f"{args.corpus}-{seed}"):
            name = " ".join([args.corpus, args.method, *args.settings])
            line = json.dumps({"run": name, "seed": seed, **found})
            print(line, flush=True)
            if args.out:
                with args.out.open("a", encoding="utf-8") as file:
                    file.write(line + "\n")


if __name__ == "__main__":
    main()
