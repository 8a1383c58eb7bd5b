"""How fast the engine is, beside what people would use in its place; one table, measured in one run.

python benchmarks/engine.py DATA_DIR [ROW ...] [--device cpu|cuda] [--epochs 3] [--documents N] [--out FILE.jsonl]

DATA_DIR holds the folders sst, movies, agnews and multirc (see `fresh.data.corpora`). Rows: pipeline, long, explain,
integrated_gradients, lime, discretizers, memory, scaling, agnews, multirc; without any, those that make sense on the
device. benchmarks/README.md says what each one measures and how the peers are written.
"""

import argparse
import functools
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

import our_side
import table
from fresh.config import suggest
from measuring import Outcome, Row, RowError, Settings, agreement, apart, compared, compete

F1_MARGIN = 0.01
"""How much lower than the peer's our macro-F1 may be."""


@dataclass(slots=True)
class Bench:
    """Measures rows, and prepares once the model that several of them ask."""

    settings: Settings
    folder: Path
    prepared: bool = False

    def model(self) -> Path:
        """Find the folder with the model that explains, for us and for the peer."""
        if not self.prepared:
            apart(self.settings.device, our_side.prepare, self.settings, self.folder)
            self.prepared = True
        return self.folder


def pipeline(bench: Bench) -> list[Row]:
    """Compare the whole of FRESH with the same written around Trainer."""
    import peer_trainer

    settings = bench.settings
    peers = {
        name: functools.partial(peer_trainer.run_pipeline, settings, by_length)
        for name, by_length in {"Trainer": False, "Trainer, grouped by length": True}.items()
    }
    ours, peer, facts = compete(settings, functools.partial(our_side.run_pipeline, settings), peers)
    on_gpu = settings.device.startswith("cuda")
    least, most = (6, 15) if on_gpu else (3, None)
    epochs = f"{settings.epochs}+{settings.epochs} epochs"
    row = Row("pipeline", f"SST, FRESH from words to test answers, {epochs}", note=f"peer: {facts['peer']}")
    row = compared(row, ours, peer, facts)
    met = (row.ratio or 0) >= least and (ours.macro_f1 or 0) >= (peer.macro_f1 or 0) - F1_MARGIN
    goal = f"at least {least}x, F1 within {F1_MARGIN}"
    if most is not None and settings.epochs == 20:
        return [replace(row, goal=f"{goal}, under {most} s", met=met and ours.seconds < most)]
    return [replace(row, goal=goal, met=met)]


def long_texts(bench: Bench) -> list[Row]:
    """Compare the training of all layers on long texts with Trainer's."""
    import peer_trainer

    settings, n = bench.settings, bench.settings.up_to(160)
    peers = {
        name: functools.partial(peer_trainer.run_long, settings, n, by_length)
        for name, by_length in {"Trainer": False, "Trainer, grouped by length": True}.items()
    }
    ours, peer, facts = compete(settings, functools.partial(our_side.run_long, settings, n), peers)
    what = f"Movies, support model, all layers, {settings.epochs} epochs, {n} reviews of up to 512 pieces"
    return [compared(Row("long", what, note=f"peer: {facts['peer']}; macro-F1 on dev"), ours, peer, facts)]


def explain(bench: Bench) -> list[Row]:
    """Compare explaining with plain classification."""
    import peer_pipeline

    settings, n = bench.settings, bench.settings.up_to(1821)
    peers = {
        f"batches of {size}": functools.partial(peer_pipeline.run_classification, settings, bench.model(), n, size)
        for size in (1, 8, 32)
    }
    ours, peer, facts = compete(settings, functools.partial(our_side.run_explain, settings, bench.model(), n), peers)
    same = agreement(ours, peer)["same"]
    note = f"peer: {facts['peer']}, reads full text; label that is explained is the peer's: {same:.3f}"
    row = compared(Row("explain", f"explain (attention), {n} sentences", note=note), ours, peer, facts)
    return [replace(row, goal="at most 1.3x its time: ratio at least 0.77", met=ours.seconds <= 1.3 * peer.seconds)]


def integrated_gradients(bench: Bench) -> list[Row]:
    """Compare integrated gradients with captum's, called sentence by sentence."""
    import peer_attribution

    settings, n = bench.settings, bench.settings.up_to(500)
    peer = functools.partial(peer_attribution.run_integrated_gradients, settings, bench.model(), n)
    ours = functools.partial(our_side.run_integrated_gradients, settings, bench.model(), n)
    found = compete(settings, ours, {"captum": peer})
    what = f"integrated gradients, {our_side.STEPS} steps, {n} sentences"
    return [attribution_row(Row("integrated_gradients", what, "at least 4x"), found, least=4)]


def lime(bench: Bench) -> list[Row]:
    """Compare LIME with captum's, called sentence by sentence."""
    import peer_attribution

    settings, n = bench.settings, bench.settings.up_to(40)
    peers = {
        f"captum, {size} at once": functools.partial(peer_attribution.run_lime, settings, bench.model(), n, size)
        for size in (1, 50, our_side.SAMPLES)
    }
    found = compete(settings, functools.partial(our_side.run_lime, settings, bench.model(), n), peers)
    return [attribution_row(Row("lime", f"LIME, {our_side.SAMPLES} samples, {n} sentences"), found)]


def attribution_row(row: Row, found: tuple[Outcome, Outcome, dict[str, Any]], least: float | None = None) -> Row:
    """Compare two sides that score words: how fast, and whether they choose the same."""
    ours, peer, facts = found
    agreed = agreement(ours, peer)
    row = compared(row, ours, peer, {**facts, "agreement": agreed})
    note = f"peer: {facts['peer']}; rationales equal: {agreed['same']:.3f}, words in common: {agreed['overlap']:.3f}"
    if "peer_with_itself" in facts:
        note += f" (of the peer with itself, another seed: {facts['peer_with_itself']['overlap']:.3f})"
    return replace(row, note=note, met=None if least is None else (row.ratio or 0) >= least)


def discretizers(bench: Bench) -> list[Row]:
    """Compare each discretizer with a direct one in plain Python."""
    import discretizer_rows

    return discretizer_rows.measure(bench.settings)


def memory(bench: Bench) -> list[Row]:
    """See how memory grows while a file is explained."""
    import memory

    return memory.measure(bench.settings)


def scaling(bench: Bench) -> list[Row]:
    """See how time grows with the documents."""
    import growth

    return growth.measure(bench.settings, bench.model())


def train_support(bench: Bench, corpus: str, most: float) -> list[Row]:
    """Time the training of a support model on a larger corpus."""
    settings = bench.settings
    found = apart(settings.device, our_side.run_support, settings, corpus, 0)
    row = Row(corpus, f"{corpus}, support model, {settings.epochs} epochs, {found.facts['n_train']:,} documents")
    goal = f"20 epochs under {most:.0f} s"
    met = found.seconds < most if settings.epochs >= 20 else None
    seconds, memory = found.seconds, found.memory
    note = "macro-F1 on dev"
    facts = found.facts
    return [
        replace(
            row, goal=goal, met=met, seconds=seconds, macro_f1=found.macro_f1, memory=memory, note=note, facts=facts
        )
    ]


ROWS: dict[str, Callable[[Bench], list[Row]]] = {
    "pipeline": pipeline,
    "long": long_texts,
    "explain": explain,
    "integrated_gradients": integrated_gradients,
    "lime": lime,
    "discretizers": discretizers,
    "memory": memory,
    "scaling": scaling,
    "agnews": functools.partial(train_support, corpus="agnews", most=30),
    "multirc": functools.partial(train_support, corpus="multirc", most=120),
}
ON_CPU = ("pipeline", "long", "explain", "integrated_gradients", "lime", "discretizers", "memory", "scaling")
ON_GPU = ("pipeline", "agnews", "multirc", "scaling")


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data_dir", type=Path)
    parser.add_argument("rows", nargs="*", metavar="row")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--epochs", type=int, help="epochs of each training; 3, or 20 on an accelerator")
    parser.add_argument("--documents", type=int, help="documents of each split, at most, for a quick look")
    parser.add_argument("--encoder", default="minilm", help="minilm, or the folder of an encoder of BERT's kind")
    parser.add_argument("--rounds", type=int, default=2, help="how often all sides take their turn")
    parser.add_argument("--out", type=Path, help="file to which each row is added as a line of JSON")
    args = parser.parse_args(arguments)
    for name in args.rows:
        if name not in ROWS:
            parser.error(suggest(name, "a row", ROWS))
    return args


def report(row: Row, out: Path | None) -> None:
    """Show a row as soon as it is there."""
    print(table.line(row), flush=True)
    if out is not None:
        with out.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row.to_dict()) + "\n")


def main() -> int:
    """Measure all rows, then print the table; 1 if a row failed."""
    args = parse()
    on_gpu = args.device.startswith("cuda")
    epochs = args.epochs or (20 if on_gpu else 3)
    settings = Settings(args.data_dir, args.device, epochs, args.documents, args.encoder, args.rounds)
    device = torch.cuda.get_device_name() if on_gpu else f"CPU, {torch.get_num_threads()} threads"
    print(f"{device}; torch {torch.__version__}; encoder {Path(args.encoder).name}", flush=True)
    done: list[Row] = []
    failed = False
    with TemporaryDirectory() as folder:
        bench = Bench(settings, Path(folder))
        for name in args.rows or (ON_GPU if on_gpu else ON_CPU):
            try:
                rows = ROWS[name](bench)
            except (RowError, ImportError) as error:
                failed, rows = True, [Row(name, f"failed: {error}")]
            for row in rows:
                report(row, args.out)
            done += rows
    print(f"\n{table.markdown(done)}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
