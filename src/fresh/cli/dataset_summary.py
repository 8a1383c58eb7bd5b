"""What a corpus is like: sizes, lengths, classes, what people marked, what comes twice; the paper's table of data."""

import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from fresh.audit.duplicates import normalize
from fresh.document import Example
from fresh.metrics.bootstrap import short
from fresh.reporting.tables import Table

NOTHING = "–"
HEADS = (
    *("corpus", "split", "documents", "words", "query words", "words marked", "with marks"),
    *("classes", "seen before"),
)
REMARKS = (
    "Words and query words: mean / most of a document. Words marked: share of a document's words that people marked, "
    "mean / most, over the documents with marks.",
    "Seen before: documents whose text and query are, but for case, those of one in an earlier split.",
)


@dataclass(frozen=True, slots=True)
class _Spread:
    """Mean and maximum."""

    mean: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "_Spread":
        """Take both of some numbers, of which there is at least one."""
        return cls(statistics.fmean(values), max(values))


@dataclass(frozen=True, slots=True)
class _Description:
    """One split of a corpus in numbers."""

    corpus: str
    split: str
    n_documents: int
    words: _Spread
    query_words: _Spread | None
    """None where nothing is asked."""
    marked: _Spread | None
    """Share of the words that people marked, in the documents where they did; none where nobody did."""
    n_marked: int
    classes: Mapping[str, int]
    """Documents of each class of the corpus, sorted by its name."""
    n_seen: int
    """Documents that are in an earlier split already."""

    def cells(self) -> tuple[str, ...]:
        """Write it as a row."""
        shares = " / ".join(short(count / self.n_documents) for count in self.classes.values())
        asked = NOTHING if self.query_words is None else _whole(self.query_words)
        marked = NOTHING if self.marked is None else f"{short(self.marked.mean)} / {short(self.marked.most)}"
        counts = (f"{self.n_marked:,}" if self.n_marked else NOTHING, shares, f"{self.n_seen:,}")
        return (self.corpus, self.split, f"{self.n_documents:,}", _whole(self.words), asked, marked, *counts)

    def record(self) -> dict[str, object]:
        """Write it in full, for machines."""
        lengths = {"words": self.words, "query words": self.query_words, "words marked": self.marked}
        spreads = {
            f"{name} {part}": "" if spread is None else getattr(spread, part)
            for name, spread in lengths.items()
            for part in ("mean", "most")
        }
        classes = "; ".join(f"{label}: {count}" for label, count in self.classes.items())
        about = {"corpus": self.corpus, "split": self.split, "documents": self.n_documents}
        return {**about, **spreads, "with marks": self.n_marked, "classes": classes, "seen before": self.n_seen}


def _whole(spread: _Spread) -> str:
    """Write numbers of words."""
    return f"{spread.mean:,.0f} / {spread.most:,.0f}"


def describe(corpus: str, parts: Mapping[str, Sequence[Example]]) -> list[_Description]:
    """Describe each split of a corpus.

    :param parts: Examples by split, the earliest first; each split has at least one.
    """
    labels = sorted({example.label for examples in parts.values() for example in examples})
    seen: set[tuple[str, str]] = set()
    found: list[_Description] = []
    for split, examples in parts.items():
        keys = [normalize(example.document) for example in examples]
        counts = Counter(example.label for example in examples)
        n_asked = [len(example.document.query) for example in examples]
        shares = [example.human.ratio for example in examples if example.human is not None and example.human.ratio]
        found.append(
            _Description(
                corpus,
                split,
                len(examples),
                _Spread.of([len(example.document.words) for example in examples]),
                _Spread.of(n_asked) if any(n_asked) else None,
                _Spread.of(shares) if shares else None,
                len(shares),
                {label: counts[label] for label in labels},
                sum(key in seen for key in keys),
            )
        )
        seen |= set(keys)
    return found


def description_sheet(described: Sequence[_Description]) -> Table:
    """Lay out all splits of all corpora."""
    rows = tuple(one.cells() for one in described)
    records = tuple(one.record() for one in described)
    return Table(HEADS, rows, records, 2, notes=(*REMARKS, *_named_classes(described)))


def _named_classes(described: Sequence[_Description]) -> Iterator[str]:
    """Say which classes the shares are of."""
    for corpus in dict.fromkeys(one.corpus for one in described):
        labels = next(one.classes for one in described if one.corpus == corpus)
        yield f"Classes of {corpus}: {', '.join(labels)}."
