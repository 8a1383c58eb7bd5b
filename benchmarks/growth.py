"""How time grows with the number of documents."""

from dataclasses import replace
from functools import partial
from pathlib import Path

from fresh.attribution.support_model import SupportModel
from fresh.document import Example
from fresh.rationalizer import Rationalizer
from measuring import Outcome, Row, Settings, apart, clocked, read_splits, spread
from our_side import configure, warm_up

TIMES = (1, 2, 4, 8)
MOST = 4000
"""Documents of the largest part."""
N_DEV = 100


def measure(settings: Settings, folder: Path) -> list[Row]:
    """Train one epoch, and explain, on ever more sentences of SST."""
    sizes = [settings.up_to(MOST) * times // TIMES[-1] for times in TIMES]
    works = {"train a support model for one epoch": train_each, "explain (attention)": explain_each}
    rows: list[Row] = []
    for name, work in works.items():
        rounds = [apart(settings.device, work, settings, folder, sizes) for _ in range(settings.rounds)]
        seconds = [min(taken) for taken in zip(*(outcome.facts["seconds"] for outcome in rounds), strict=True)]
        rows.append(grown(name, sizes, seconds, rounds[0].memory))
    return rows


def grown(name: str, sizes: list[int], seconds: list[float], memory: float) -> Row:
    """Say how far from linear the growth is."""
    shares = [taken / seconds[0] / times for taken, times in zip(seconds, TIMES, strict=True)]
    steps = ", ".join(f"{size:,}: {taken:.2f} s" for size, taken in zip(sizes, seconds, strict=True))
    return Row(
        row="scaling",
        what=f"{name}, time for {TIMES[-1]}x the documents over {TIMES[-1]} times that for 1x",
        goal="linear: at most 1.1",
        met=shares[-1] <= 1.1,
        seconds=seconds[-1],
        ratio=shares[-1],
        memory=memory,
        note=steps,
        facts={"documents": sizes, "seconds": seconds, "to_linear": shares},
    )


def some_examples(settings: Settings, n: int) -> tuple[Example, ...]:
    """Take training sentences of SST."""
    return spread(read_splits(replace(settings, documents=None)).train, n)


def train_each(settings: Settings, _folder: Path, sizes: list[int]) -> Outcome:
    """Train a support model for an epoch; loading, and a small dev set, are a fixed part of it."""
    dev = read_splits(settings).dev[:N_DEV]
    config = configure(settings, 0, epochs=1)
    parts = [some_examples(settings, n) for n in (N_DEV, *sizes)]  # the first one warms up
    seconds = [clocked(settings.device, partial(SupportModel.train, part, dev, config))[1] for part in parts]
    return Outcome(sum(seconds), facts={"seconds": seconds[1:]})


def explain_each(settings: Settings, folder: Path, sizes: list[int]) -> Outcome:
    """Explain sentences with a model that has just been read, so that it remembers no words."""
    seconds: list[float] = []
    for n in sizes:
        model = Rationalizer.from_pretrained(folder / "ours", device=settings.device)
        texts = [example.document.text for example in some_examples(settings, n)]
        model.explain(warm_up(settings))
        seconds.append(clocked(settings.device, partial(model.explain, texts))[1])
    return Outcome(sum(seconds), facts={"seconds": seconds})
