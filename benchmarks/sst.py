"""Test macro-F1 on SST for full text and for rationales of every scorer, with one support model a seed.

python benchmarks/sst.py DATA_DIR [--out FILE.jsonl] [setting=value ...]

DATA_DIR holds the corpus (see `fresh.data.corpora`). Settings are those of `fresh train`, for example seed=1
encoder=mpnet. The scorers that read many variants of a document (occlusion, lime, kernel_shap) are left out
unless they are named: --scorers occlusion,lime.
"""

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fresh.attribution.support_model import SupportModel
from fresh.config import from_mapping, parse_assignments
from fresh.data.corpora import find_corpus
from fresh.data.splits import Splits
from fresh.document import Example
from fresh.methods.config import FreshConfig
from fresh.methods.rationales import build_scorer, cut_examples, learn_cutoff, score_all
from fresh.metrics.classification import accuracy, macro_f1
from fresh.predictor import Predictor
from fresh.progress import Terminal
from fresh.rationale import Prediction
from fresh.selection.extractors import select_masks
from fresh.training.loop import RunContext

QUICK = ("attention", "gradient", "integrated_gradients", "attention_gradient", "random")


def measure(examples: Sequence[Example], predictions: Sequence[Prediction], labels: Sequence[str]) -> dict[str, float]:
    """Compare answers with gold labels."""
    gold, answers = [item.label for item in examples], [item.label for item in predictions]
    return {"macro_f1": macro_f1(gold, answers, labels), "accuracy": accuracy(gold, answers)}


def run_scorer(name: str, support: SupportModel, splits: Splits, config: FreshConfig) -> dict[str, float]:
    """Make rationales with one scorer, train a predictor on them and test it."""
    context = RunContext("predictor", progress=Terminal())
    config = replace(config, scorer=name)
    scorer = build_scorer(config, support, None)
    scores = {
        part: score_all(scorer, getattr(splits, part), context.progress, f"{name}, {part}")
        for part in ("train", "dev", "test")
    }
    discretizer = learn_cutoff(config.make_discretizer(), scores["train"])
    pairs = {part: cut_examples(getattr(splits, part), select_masks(discretizer, scores[part])) for part in scores}
    predictor = Predictor.train(pairs["train"], pairs["dev"], config, context)
    found = predictor.predict([rationale for rationale, _ in pairs["test"]])
    n_kept = sum(len(rationale.words) for rationale, _ in pairs["test"])
    n_words = sum(len(example.document.words) for example in splits.test)
    return measure(splits.test, found, splits.labels) | {"kept": n_kept / n_words}


def main() -> None:
    """Run all and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data_dir", type=Path)
    parser.add_argument("settings", nargs="*", metavar="setting=value")
    parser.add_argument("--scorers", default=",".join(QUICK))
    parser.add_argument("--corpus", default="sst")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    corpus = find_corpus(args.corpus)
    splits = corpus.read(args.data_dir)
    config = from_mapping(FreshConfig, {"ratio": corpus.ratio, **parse_assignments(args.settings)})
    started = time.perf_counter()
    support = SupportModel.train(splits.train, splits.dev, config, RunContext("support model", progress=Terminal()))
    found = support.predict([example.document for example in splits.test])
    rows = [{"row": "full text"} | measure(splits.test, found, splits.labels) | {"kept": 1.0}]
    for name in ("full text", *args.scorers.split(",")):
        if name != "full text":
            rows.append({"row": name} | run_scorer(name, support, splits, config))
        rows[-1] |= {"seconds": time.perf_counter() - started, "settings": " ".join(args.settings)}
        print(json.dumps(rows[-1]), flush=True)
        if args.out:
            args.out.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    main()
