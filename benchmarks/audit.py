"""Replay and invariance of every method: how many predictions differ, how many counterexamples there are.

python benchmarks/audit.py DATA_DIR [CASE ...] [--trials 10000] [--documents 300] [--out FILE.jsonl]

DATA_DIR holds the folders `sst` and `multirc` (see `fresh.data.corpora`). Each case is trained for one epoch on some
documents, and audited on test; a line of JSON is printed, and added to the file, for each. The command ends with 1 if
anything was broken.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from fresh.audit.invariance import check_invariance
from fresh.audit.replay import replay
from fresh.config import from_mapping
from fresh.data.corpora import find_corpus
from fresh.data.splits import Splits
from fresh.evaluation.evaluation import explain_all
from fresh.methods.registry import find_config, train_method
from fresh.progress import SILENT
from fresh.training.loop import RunContext

FEW = {"samples": 20, "steps": 4}
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    **{
        f"fresh, {scorer}": ("sst", "fresh", {"scorer": scorer, **FEW})
        for scorer in (
            *("attention", "gradient", "attention_gradient", "integrated_gradients", "occlusion"),
            *("lime", "kernel_shap"),
        )
    },
    "fresh, contiguous": ("sst", "fresh", {"discretizer": "contiguous"}),
    "fresh, global_top_k": ("sst", "fresh", {"discretizer": "global_top_k"}),
    "fresh, global_contiguous": ("sst", "fresh", {"discretizer": "global_contiguous"}),
    "fresh, ratio 0.1:0.5": ("sst", "fresh", {"ratio": "0.1:0.5"}),
    "fresh, chunk": ("sst", "fresh", {"long": "chunk"}),
    "fresh, tagger": ("sst", "fresh", {"tagger": True}),
    "fresh, tagger with crf": ("sst", "fresh", {"tagger": True, "crf": True}),
    "fresh, distilled": ("sst", "fresh", {"distil": True}),
    "fresh, queries": ("multirc", "fresh", {}),
    "lei": ("sst", "lei", {}),
    "bastings": ("sst", "bastings", {}),
    "full_text": ("sst", "full_text", {}),
    "random": ("sst", "random", {}),
    "human": ("multirc", "human", {}),
}


def measure(splits: Splits, method: str, settings: dict[str, Any], n_trials: int) -> dict[str, Any]:
    """Train once, and try to break what came out."""
    config = from_mapping(find_config(method), {"epochs": 1, "device": "cpu", **settings})
    started = time.perf_counter()
    model = train_method(method, splits, config, RunContext(), None).model
    trained = time.perf_counter()
    explained = explain_all(model, [example.document for example in splits.test], SILENT, "")
    replayed = replay(model.predictor, explained)
    invariance = check_invariance(model, explained, n_trials)
    return {
        "predictions": len(explained),
        "replay": replayed.found,
        "replay_evidence": replayed.evidence[:2],
        "invariance": invariance.found,
        "trials": invariance.evidence[0],
        "train_seconds": round(trained - started, 1),
        "audit_seconds": round(time.perf_counter() - trained, 1),
    }


def some(splits: Splits, n_documents: int) -> Splits:
    """Take the first documents of each split."""
    return Splits(*(part[:n_documents] for part in (splits.train, splits.dev, splits.test)))


def main() -> int:
    """Run the cases that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data_dir", type=Path)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"all if none is given: {'; '.join(CASES)}")
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--documents", type=int, default=300, help="documents of each split")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    broken = False
    for case in args.cases or CASES:
        corpus, method, settings = CASES[case]
        splits = some(find_corpus(corpus).read(args.data_dir), args.documents)
        record = {"case": case, "corpus": corpus, **measure(splits, method, settings, args.trials)}
        broken = broken or {record["replay"], record["invariance"]} != {"holds"}
        line = json.dumps(record)
        print(line, flush=True)
        if args.out is not None:
            with args.out.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
    return int(broken)


if __name__ == "__main__":
    sys.exit(main())
