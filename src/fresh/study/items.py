"""What people are shown: rationales alone, as a predictor reads them, and nothing that tells who chose the words."""

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal, Protocol

import numpy as np

from fresh.data.fingerprints import TrainingFingerprints
from fresh.document import Document, Example, Mask
from fresh.errors import StudyError
from fresh.metrics.bootstrap import number_texts
from fresh.rationale import Rationale, Words
from fresh.study.answer import CONFIDENCE, READABILITY, Answer
from fresh.study.config import RANDOM, Condition, Study
from fresh.study.objections import too_few, wrong_examples
from fresh.study.sampling import draw, in_turns, random_mask
from fresh.study.wording import plural

CHECK = "this is a check that you are reading . please choose {label} , {confidence} and {readability} ."


class _Chooser(Protocol):
    """Chooses words, without a look at any label."""

    def extract(self, documents: Sequence[Document]) -> list[Mask]:
        """Return one mask a document."""
        ...


class Model(Protocol):
    """What a study needs of a saved model."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The answers it can give."""
        ...

    @property
    def needs_query(self) -> bool:
        """Whether each document comes with a query."""
        ...

    @property
    def extractor(self) -> _Chooser:
        """What chooses the words."""
        ...

    @property
    def fingerprints(self) -> TrainingFingerprints | None:
        """Which texts it was trained with."""
        ...


Load = Callable[[str], Model]


@dataclass(frozen=True, slots=True)
class Item:
    """A text that people answer, and the right answer."""

    kind: Literal["real", "practice", "check", "example"]
    rationale: Rationale
    label: str
    document: int = -1
    """Place of its document in the plan; none for a check."""
    condition: int = -1
    """Place of its condition in the plan; none for a check."""
    asked: Answer | None = None
    """What an attention check asks for."""


@dataclass(frozen=True, slots=True)
class _Source:
    """A document of the sample, without its text."""

    id: str
    label: str
    text: int
    """Number of its text; several documents may ask about one."""


@dataclass(frozen=True, slots=True)
class Plan:
    """All that is fixed before the first person comes."""

    study: Study
    labels: Mapping[str, str]
    """All labels, and how people read each."""
    documents: tuple[_Source, ...]
    items: tuple[Item, ...]
    """The real ones: each document in each condition, document by document."""
    practice: tuple[Item, ...]
    checks: tuple[Item, ...]
    remarks: tuple[str, ...] = ()
    """What whoever runs the study should know."""
    examples: tuple[Item, ...] = ()

    @property
    def conditions(self) -> tuple[str, ...]:
        """The names of the conditions."""
        return tuple(condition.name for condition in self.study.conditions)


def make_plan(study: Study, examples: Sequence[Example], load: Load) -> Plan:
    """Draw the sample and cut it in every condition, or say all that stands against it.

    :param examples: The documents that may be drawn.
    :param load: Reads a saved model from its folder.
    """
    config = study.config
    problems = list(wrong_examples(study, examples))
    human = any(condition.kind == "human" for condition in study.conditions)
    usable = [example for example in examples if not human or (example.human is not None and example.human.kept.any())]
    wanted = config.sample + config.practice
    if len(usable) < wanted:
        problems.append(too_few(len(examples), len(usable), wanted, human, config.practice))
    models = _load_models(study, examples, load, problems)
    if problems:
        raise StudyError("\n".join(problems))
    return _lay_out(study, usable, _in_order(study.labels, {example.label for example in examples}), models)


def _in_order(named: Mapping[str, str], labels: Set[str]) -> list[str]:
    """Order labels as the study names them, and the others behind them by the alphabet."""
    return [*(label for label in named if label in labels), *sorted(labels - named.keys())]


def _lay_out(study: Study, usable: Sequence[Example], labels: Sequence[str], models: Mapping[str, Model]) -> Plan:
    """Draw documents to judge and others to practise with, and cut all of them."""
    config, ways = study.config, study.conditions
    generator = np.random.default_rng(config.seed)
    first = draw(usable, config.sample, generator)
    rest = [example for place, example in enumerate(usable) if place not in set(first)]
    sampled = [usable[place] for place in first]
    n_others = min(config.practice + config.examples, len(rest))
    others = in_turns([rest[place] for place in draw(rest, n_others, generator)] if n_others else [])
    masks = _cut_all(study, [*sampled, *others], models, generator)
    shown = [_with_casing(example.document, config.casing) for example in (*sampled, *others)]

    def item(kind: Literal["real", "practice", "example"], place: int, way: int, label: str) -> Item:
        rationale = shown[place].cut(masks[ways[way].name][place])
        return Item(kind, rationale, label, place if kind == "real" else -1, way)

    real = [item("real", place, way, e.label) for place, e in enumerate(sampled) for way in range(len(ways))]
    aside = [
        item("practice" if number < config.practice else "example", len(sampled) + number, number % len(ways), e.label)
        for number, e in enumerate(others)
    ]
    read_as = {label: study.labels.get(label, label) for label in labels}
    n_checks = min(config.checks, config.sample)
    asked = [_with_casing(example.document, config.casing).query for example in _unshown(usable, sampled, others)]
    queries = [asked[int(place)] for place in generator.permutation(len(asked))]
    checks = tuple(_make_check(number, read_as, queries[number % len(queries)]) for number in range(n_checks))
    remarks = (*_even_votes(config.per_item), *_known_texts(models, sampled), *_same_texts(ways, real, len(sampled)))
    practice, shown_before = tuple(aside[: config.practice]), tuple(aside[config.practice :])
    return Plan(study, read_as, _sources_of(sampled), tuple(real), practice, checks, remarks, shown_before)


def _unshown(usable: Sequence[Example], *shown: Sequence[Example]) -> list[Example]:
    """List the documents that nobody is shown, or all of them if there are no others."""
    names = {example.document.id for part in shown for example in part}
    return [example for example in usable if example.document.id not in names] or list(usable)


def _sources_of(sampled: Sequence[Example]) -> tuple[_Source, ...]:
    """Take note of names, labels and shared texts."""
    texts = number_texts(example.document.words for example in sampled)
    numbers = range(len(sampled)) if texts is None else texts.tolist()
    return tuple(_Source(e.document.id, e.label, number) for e, number in zip(sampled, numbers, strict=True))


def _load_models(study: Study, examples: Sequence[Example], load: Load, problems: list[str]) -> dict[str, Model]:
    """Read all models, and gather what stands against showing their rationales."""
    models: dict[str, Model] = {}
    labels = {example.label for example in examples}
    asked = any(example.document.query for example in examples)
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
                f"documents have {', '.join(sorted(labels))}. Train one on these labels."
            )
        if examples and model.needs_query != asked:
            trained, have = ("with", "have none") if model.needs_query else ("without", "have some")
            problems.append(
                f"conditions.{condition.name}: the model was trained {trained} queries, but the documents {have}. "
                f"Choose a model that was trained {'with' if asked else 'without'} queries."
            )
    return models


def _cut_all(
    study: Study, examples: Sequence[Example], models: Mapping[str, Model], generator: np.random.Generator
) -> dict[str, list[Mask]]:
    """Choose the words of all documents in all conditions; random words come last, as long as those they match."""
    documents = [example.document for example in examples]
    masks: dict[str, list[Mask]] = {}
    problems: list[str] = []
    for condition in sorted(study.conditions, key=lambda condition: condition.kind in RANDOM):
        if condition.like and condition.like not in masks:
            continue  # what is wrong with the condition that it matches has been told
        try:
            masks[condition.name] = _cut(condition, examples, documents, models, masks, generator)
        except ValueError as error:
            problems.append(f"conditions.{condition.name}: {error}")
            continue
        empty = [d.id for d, m in zip(documents, masks[condition.name], strict=True) if not m.kept.any()]
        if empty and not condition.like:
            problems.append(
                f"conditions.{condition.name}: no word of document {empty[0]!r} is kept "
                f"({plural(len(empty), 'such document')}), so that there is nothing to show. "
                "Choose a model that always keeps some."
            )
    if problems:
        raise StudyError("\n".join(problems))
    return masks


def _cut(
    condition: Condition,
    examples: Sequence[Example],
    documents: Sequence[Document],
    models: Mapping[str, Model],
    masks: Mapping[str, list[Mask]],
    generator: np.random.Generator,
) -> list[Mask]:
    """Choose the words of all documents in one condition."""
    if condition.kind == "model":
        return models[condition.name].extractor.extract(documents)
    if condition.kind == "human":
        return [example.human for example in examples if example.human is not None]
    if condition.kind == "full_text":
        return [Mask.full(len(document.words)) for document in documents]
    lengths = [int(mask.kept.sum()) for mask in masks[condition.like]]
    contiguous = condition.kind == "random_contiguous"
    return [random_mask(d, n_kept, contiguous, generator) for d, n_kept in zip(documents, lengths, strict=True)]


def _with_casing(document: Document, casing: str) -> Document:
    """Write a document as all are shown; its name stays behind."""
    if casing == "kept":
        return replace(document, id="")
    words = [word.lower() for word in document.words]
    return Document.from_words(words, [word.lower() for word in document.query])


def _make_check(number: int, labels: Mapping[str, str], query: Words = ()) -> Item:
    """Make an attention check that asks for certain answers, others each time.

    :param query: That of some document: what asks about nothing would stand out.
    """
    label = sorted(labels)[number % len(labels)]
    asked = Answer(label, (1, 4, 2, 3)[number % 4], (5, 1, 4, 2, 3)[number % 5])
    steps = {"confidence": CONFIDENCE[asked.confidence - 1], "readability": READABILITY[asked.readability - 1]}
    words = CHECK.format(label=labels[label].lower(), **steps).split()
    return Item("check", Document.from_words(words, query).cut(Mask.full(len(words))), label, asked=asked)


def _even_votes(per_item: int) -> Iterator[str]:
    """Say that votes may be tied."""
    if per_item % 2 == 0:
        yield f"per_item is {per_item}, an even number: votes may be tied, half against half. Choose an odd one."


def _known_texts(models: Mapping[str, Model], sampled: Sequence[Example]) -> Iterator[str]:
    """Say which models were trained with documents of the sample."""
    for name, model in models.items():
        n_known = 0 if model.fingerprints is None else model.fingerprints.count(example.document for example in sampled)
        if n_known:
            known = f"{n_known} of {plural(len(sampled), 'document')}"
            yield f"{name} was trained with {known}: its rationales may be too good."


def _same_texts(conditions: Sequence[Condition], items: Sequence[Item], n_documents: int) -> Iterator[str]:
    """Say where two conditions show the same words, so that they cannot differ there."""
    for (one, first), (two, second) in combinations(enumerate(conditions), 2):
        pairs = zip(items[one :: len(conditions)], items[two :: len(conditions)], strict=True)
        n_same = sum(left.rationale == right.rationale for left, right in pairs)
        if n_same:
            alike = f"{n_same} of {plural(n_documents, 'document')}"
            yield f"{first.name} and {second.name} show the same words in {alike}."
