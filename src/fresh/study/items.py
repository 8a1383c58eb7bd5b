"""The plan of a study: which documents are sampled, and what annotators see of each in every condition."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from fresh.data.corpora import CORPORA, find_corpus
from fresh.data.examples import read_examples
from fresh.data.splits import apportion
from fresh.document import Document, Example, Mask
from fresh.errors import DataError, StudyError
from fresh.metrics.bootstrap import number_texts
from fresh.rationale import Rationale, Words
from fresh.study.answers import CONFIDENCE, READABILITY, Answer
from fresh.study.config import RANDOM_KINDS, Study, StudyConfig
from fresh.study.display import check_name, find_lookalikes
from fresh.text import plural

if TYPE_CHECKING:  # studies without models load none of the code of models
    from fresh.rationalizer import Rationalizer

CHECK = "this is a check that you are reading . please choose {label} , {confidence} and {readability} ."
# The lengths 4 and 5 have no common divisor: of 20 checks, no two ask for the same pair of ratings.
CHECK_CONFIDENCE, CHECK_READABILITY = (1, 4, 2, 3), (5, 1, 4, 2, 3)
Kind = Literal["real", "practice", "check", "example"]
LoadModel = Callable[[str], "Rationalizer"]


@dataclass(frozen=True, slots=True)
class Item:
    """A text to label, and its label."""

    kind: Kind
    rationale: Rationale
    label: str
    document: int | None = None  # its number in the sample; only of real items
    condition: int | None = None  # its number; checks have none
    expected: Answer | None = None  # what an attention check asks for


@dataclass(frozen=True, slots=True)
class SampledDocument:
    """A document of the sample, without its text."""

    id: str
    label: str
    text: int  # number of its text; several documents may share one


@dataclass(frozen=True, slots=True)
class Plan:
    """What is fixed before the first annotator starts."""

    study: Study
    labels: Mapping[str, str]
    """All labels, and how annotators see each."""
    documents: tuple[SampledDocument, ...]
    items: tuple[Item, ...]
    """The real items: all conditions of the first document, then of the next."""
    practice: tuple[Item, ...]
    checks: tuple[Item, ...]
    warnings: tuple[str, ...] = ()
    """What to know before the study starts."""
    examples: tuple[Item, ...] = ()


def read_documents(config: StudyConfig, file: Path) -> list[Example]:
    """Read the test split of a corpus, or a whole file.

    :param file: The study file, for errors.
    """
    path = Path(config.corpus)
    if config.data_dir:
        return list(find_corpus(config.corpus).read(Path(config.data_dir)).test)
    if not (path.suffix or path.exists()):
        raise DataError(
            f"{path} does not exist, and {path.name} is not the name of a corpus. Set corpus in {file} to a file, or "
            f"to one of {', '.join(CORPORA)} together with data_dir."
        )
    return list(read_examples(config.corpus, config.data))


def make_plan(study: Study, examples: Sequence[Example], load: LoadModel) -> Plan:
    """Sample documents and select words in every condition; report all problems at once.

    :param examples: The documents to sample from.
    :param load: Loads a saved model from its folder.
    """
    config = study.config
    human = any(condition.kind == "human" for condition in study.conditions)
    usable = [example for example in examples if not human or (example.human is not None and example.human.kept.any())]
    problems = list(_document_problems(study, examples))
    n_needed = config.sample + config.practice
    if len(usable) < n_needed:
        marked = " with marked words, which the human condition shows" if human else ""
        problems.append(
            f"The study needs {plural(n_needed, 'document')} ({config.sample:,} to judge and {config.practice:,} for "
            f"practice), but there {'is' if len(usable) == 1 else 'are'} {len(usable):,}{marked}. Lower sample or "
            f"practice{', remove that condition, or set rationale to the column that has them' if human else ''}."
        )
    models = _load_models(study, examples, load, problems)
    if problems:
        raise StudyError("\n".join(problems))
    found = {example.label for example in examples}
    labels = {label: text for label, text in study.labels.items() if label in found}
    labels |= {label: label for label in sorted(found - study.labels.keys())}
    generator = np.random.default_rng(config.seed)
    # The order of random draws is part of the design: the same settings must make the same study again.
    drawn = sample_documents(usable, config.sample, generator)
    rest = [example for place, example in enumerate(usable) if place not in set(drawn)]
    sampled = [usable[place] for place in drawn]
    n_others = min(config.practice + config.examples, len(rest))
    others = alternate_labels([rest[place] for place in sample_documents(rest, n_others, generator)])
    masks = _select_words(study, [*sampled, *others], models, generator)
    shown = [_anonymize(example.document, config.casing) for example in (*sampled, *others)]

    def item(kind: Kind, place: int, condition: int, label: str) -> Item:
        rationale = shown[place].cut(masks[study.conditions[condition].name][place])
        return Item(kind, rationale, label, place if kind == "real" else None, condition)

    n_conditions = len(study.conditions)
    real = [item("real", place, number, e.label) for place, e in enumerate(sampled) for number in range(n_conditions)]
    aside = [
        item("practice" if n < config.practice else "example", len(sampled) + n, n % n_conditions, e.label)
        for n, e in enumerate(others)
    ]
    texts = number_texts(example.document.words for example in sampled)
    numbers = range(len(sampled)) if texts is None else texts.tolist()
    documents = (SampledDocument(e.document.id, e.label, text) for e, text in zip(sampled, numbers, strict=True))
    return Plan(
        study,
        labels,
        tuple(documents),
        tuple(real),
        tuple(aside[: config.practice]),
        tuple(_make_checks(config, labels, usable, [*sampled, *others], generator)),
        tuple(_find_warnings(study, real, models, sampled)),
        tuple(aside[config.practice :]),
    )


def _document_problems(study: Study, examples: Sequence[Example]) -> Iterator[str]:
    if not examples:
        return
    labels = sorted({example.label for example in examples})
    if len(labels) < 2:
        yield f"All documents have the label {labels[0]!r}. Annotators need at least two labels to choose from."
    if unknown := sorted(study.labels.keys() - set(labels)):
        yield f"[labels] names labels that no document has: {', '.join(unknown)}. There are: {', '.join(labels)}."
    shown = {label: study.labels.get(label, label) for label in labels}
    for label in labels:
        yield from check_name(f"The text of the label {label!r}", shown[label])
    for one, other in find_lookalikes(shown.values()):
        yield f"The labels {one!r} and {other!r} look alike. Give each a different text in [labels]."
    [(name, count)] = Counter(example.document.id for example in examples).most_common(1)
    if count > 1:
        yield f"{count} documents have the id {name!r}. Give each document its own id."
    for example in examples:
        try:
            "\0".join((*example.document.words, *example.document.query, example.label, example.document.id)).encode()
        except UnicodeEncodeError:
            yield f"Document {example.document.id!r} contains an unpaired surrogate. Fix it, or leave the document out."


def _load_models(
    study: Study, examples: Sequence[Example], load: LoadModel, problems: list[str]
) -> dict[str, "Rationalizer"]:
    models: dict[str, Rationalizer] = {}
    labels = {example.label for example in examples}
    have_queries = any(example.document.query for example in examples)
    for condition in study.conditions:
        if condition.kind != "model":
            continue
        try:
            model = models[condition.name] = load(condition.model)
        except (ValueError, OSError) as error:
            problems.append(f"conditions.{condition.name}: {error}")
            continue
        if examples and set(model.labels) != labels:
            problems.append(
                f"conditions.{condition.name}: the model knows the labels {', '.join(sorted(model.labels))}, but the "
                f"documents have {', '.join(sorted(labels))}. Train a model on these labels."
            )
        if examples and model.needs_query != have_queries:
            trained, needed = ("with", "without") if model.needs_query else ("without", "with")
            problems.append(
                f"conditions.{condition.name}: the model was trained {trained} queries. Choose one that was trained "
                f"{needed} queries, like the documents."
            )
    return models


def sample_documents(examples: Sequence[Example], n: int, generator: np.random.Generator) -> list[int]:
    """Sample documents with the label proportions of all; a text is repeated only if there are no others.

    :return: Their places among the examples, in a random order.
    """
    if not n:
        return []
    sizes = Counter(sorted(example.label for example in examples))
    room = apportion(n, sizes, sizes)
    chosen: dict[int, None] = {}  # in the order in which they were drawn
    texts: set[Words] = set()
    shuffled = generator.permutation(len(examples)).tolist()
    # The first pass takes each text once; the second fills up with repeats, such as further questions about a passage.
    for may_repeat in (False, True):
        for place in shuffled:
            label, words = examples[place].label, examples[place].document.words
            if room[label] and place not in chosen and (may_repeat or words not in texts):
                texts.add(words)
                room[label] -= 1
                chosen[place] = None
    return [int(place) for place in generator.permutation(list(chosen))]


def alternate_labels(examples: Sequence[Example]) -> list[Example]:
    """Reorder examples so that the labels alternate while examples of each are left."""
    by_label: dict[str, list[Example]] = {}
    for example in examples:
        by_label.setdefault(example.label, []).append(example)
    return [example for turn in zip_longest(*by_label.values()) for example in turn if example is not None]


def _select_words(
    study: Study, examples: Sequence[Example], models: Mapping[str, "Rationalizer"], generator: np.random.Generator
) -> dict[str, list[Mask]]:
    documents = [example.document for example in examples]
    masks: dict[str, list[Mask]] = {}
    problems: list[str] = []
    # Random conditions come last, since they copy the lengths of others.
    for condition in sorted(study.conditions, key=lambda condition: condition.kind in RANDOM_KINDS):
        name = condition.name
        if condition.like and condition.like not in masks:
            continue  # the problem of the condition that it copies has been reported
        try:
            if condition.kind == "model":
                masks[name] = models[name].extractor.extract(documents)
            elif condition.kind == "human":
                masks[name] = [example.human for example in examples if example.human is not None]
            elif condition.kind == "full_text":
                masks[name] = [Mask.full(len(document.words)) for document in documents]
            else:
                pairs = zip(documents, masks[condition.like], strict=True)
                contiguous = condition.kind == "random_contiguous"
                masks[name] = [random_mask(d, int(mask.kept.sum()), contiguous, generator) for d, mask in pairs]
        except ValueError as error:
            problems.append(f"conditions.{name}: {error}")
            continue
        empty = [d.id for d, mask in zip(documents, masks[name], strict=True) if not mask.kept.any()]
        if empty and not condition.like:
            problems.append(
                f"conditions.{name}: the model selects no word of {plural(len(empty), 'document')}, such as "
                f"{empty[0]!r}. Choose a model that always selects some."
            )
    if problems:
        raise StudyError("\n".join(problems))
    return masks


def random_mask(document: Document, n_kept: int, contiguous: bool, generator: np.random.Generator) -> Mask:
    """Select words at random, as one span or anywhere."""
    n_words = len(document.words)
    if contiguous:
        start = int(generator.integers(n_words - n_kept + 1))
        return Mask.from_spans([(start, start + n_kept)] if n_kept else [], n_words)
    kept = np.zeros(n_words, dtype=np.bool_)
    kept[generator.choice(n_words, size=n_kept, replace=False)] = True
    return Mask(kept)


def _anonymize(document: Document, casing: str) -> Document:
    if casing == "kept":
        return replace(document, id="")
    return Document.from_words([w.lower() for w in document.words], [w.lower() for w in document.query])


def _make_checks(
    config: StudyConfig,
    labels: Mapping[str, str],
    usable: Sequence[Example],
    shown: Sequence[Example],
    generator: np.random.Generator,
) -> Iterator[Item]:
    # Each has the query of a document that is not shown: without one, it would stand out among items that have one.
    ids = {example.document.id for example in shown}
    unseen = [example for example in usable if example.document.id not in ids] or list(usable)
    order = [int(place) for place in generator.permutation(len(unseen))]
    for number in range(min(config.checks, config.sample)):
        query = _anonymize(unseen[order[number % len(order)]].document, config.casing).query
        label = sorted(labels)[number % len(labels)]
        confidence, readability = CHECK_CONFIDENCE[number % 4], CHECK_READABILITY[number % 5]
        steps = {"confidence": CONFIDENCE[confidence - 1], "readability": READABILITY[readability - 1]}
        words = CHECK.format(label=labels[label].lower(), **steps).split()
        rationale = Document.from_words(words, query).cut(Mask.full(len(words)))
        yield Item("check", rationale, label, expected=Answer(label, confidence, readability))


def _find_warnings(
    study: Study, items: Sequence[Item], models: Mapping[str, "Rationalizer"], sampled: Sequence[Example]
) -> Iterator[str]:
    if study.config.per_item % 2 == 0:
        yield f"per_item is {study.config.per_item}, an even number: votes can be tied. Choose an odd number."
    n_documents = plural(len(sampled), "document")
    for name, model in models.items():
        n_known = 0 if model.fingerprints is None else model.fingerprints.count(example.document for example in sampled)
        if n_known:
            yield f"{name} was trained on {n_known} of {n_documents}: its rationales may look too good."
    n_conditions = len(study.conditions)
    for (one, first), (two, second) in combinations(enumerate(study.conditions), 2):
        pairs = zip(items[one::n_conditions], items[two::n_conditions], strict=True)
        if n_same := sum(left.rationale == right.rationale for left, right in pairs):
            yield f"{first.name} and {second.name} show the same words in {n_same} of {n_documents}."
