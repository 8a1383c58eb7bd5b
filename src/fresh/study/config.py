"""STUDY.toml: which texts are shown to how many people, cut by whom."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from fresh.config import (
    check_min,
    describe_type,
    flatten,
    from_mapping,
    list_settings,
    raise_all,
    read_toml,
    suggest,
    union_types,
)
from fresh.data.config import DataConfig
from fresh.data.corpora import CORPORA
from fresh.errors import ConfigError
from fresh.study.wording import alike, as_seen, wrong_name

Kind = Literal["human", "full_text", "model", "random_contiguous", "random_non_contiguous"]
RANDOM = ("random_contiguous", "random_non_contiguous")
MOST = 1_000_000
LARGEST = {"per_item": 1_000, "annotators": 10_000, "practice": 1_000, "examples": 1_000, "checks": 1_000}
"""The most that some settings take; others take a million."""
SHOWN = {
    "movies": {"NEG": "Negative", "POS": "Positive"},
    "sst": {"0": "Negative", "1": "Positive"},
    "multirc": {"False": "No", "True": "Yes"},
}
"""How people read the labels of some corpora, unless the study says otherwise."""
QUESTIONS = {
    "movies": "Is this review of a film positive or negative?",
    "sst": "Is this sentence about a film positive or negative?",
    "agnews": "What is this piece of news about?",
    "evinf": "What does the text say about the question?",
    "multirc": "Going by the text, is the answer to the question right?",
}
ON_OUR_PAGES = (
    " First come a few examples for practice, where you will see the right label after your answer. Now and then a "
    "page asks you to choose certain answers, to see that you are reading: choose those."
)
"""What the instructions say of practice and checks, which other tools do not show."""


@dataclass(frozen=True, slots=True)
class _Texts:
    """What people read before and beside the items."""

    consent: str = (
        "You will read texts and say what you make of them. Taking part is voluntary: you can stop at any time "
        "without giving a reason. We keep your answers and how long each of them took, and nothing that says who you "
        "are. The answers are used for research and may be published. If you agree, go on."
    )
    """What somebody agrees to before anything is asked."""
    instructions: str = (
        "Each page shows a text, or only some words of one: then words before, between and behind them are missing. "
        "Decide from what is shown alone which label fits, say how confident you are, and how easy the words are to "
        "read and understand. If you cannot tell, choose the label that seems more likely, and say that you are not "
        f"confident.{ON_OUR_PAGES}"
    )
    """What people are told to do."""
    question: str | None = None
    """What is asked about each text; if it is left out, one of its own for each corpus of the paper, else a general
    one."""
    thanks: str = "That was all. Thank you for your help!"
    """What people read at the end."""

    def __post_init__(self) -> None:
        given = {name: getattr(self, name) for name in ("consent", "instructions", "question", "thanks")}
        empty = [name for name, text in given.items() if text is not None and not as_seen(text)]
        raise_all(*(f"texts.{name} must be text that people can read. Write some, or leave it out." for name in empty))


@dataclass(frozen=True, slots=True)
class StudyConfig:
    """Settings of a study beside its conditions and labels."""

    corpus: str = ""
    """One of the paper's corpora (with data_dir), of which the test part is used, or a file of your own."""
    data_dir: str = ""
    """Folder with the files of a named corpus."""
    title: str = "What do you read here?"
    """What people see above every page."""
    sample: int = 100
    """Documents that are drawn, with the same mix of labels as the corpus."""
    seed: int = 0
    """Draws documents, random words, and everybody's order of the documents."""
    per_item: int = 3
    """Annotators of each item."""
    annotators: int = 0
    """People who get a sign-in code at first; 0 for as many as are needed if each does all that they may."""
    most: int = 0
    """Items that one annotator does, at most; 0 for one of every document."""
    practice: int = 4
    """Practice items, with feedback; of documents that are not in the sample."""
    examples: int = 2
    """Examples in the instructions, with their labels; of other documents again, fewer if there are not as many."""
    checks: int = 3
    """Attention checks that each annotator gets; not more than there are documents."""
    hours: float = 24.0
    """After so many hours without an answer an item is given to somebody else."""
    casing: Literal["lower", "kept"] = "lower"
    """All texts in small letters, or as the corpus has them; the same for all conditions."""
    texts: _Texts = field(default_factory=_Texts)
    data: DataConfig = field(default_factory=DataConfig)

    def __post_init__(self) -> None:
        least = {"sample": self.sample, "per_item": self.per_item}
        zero = {name: getattr(self, name) for name in ("seed", "annotators", "most", "practice", "examples", "checks")}
        bounds = {name: (value, LARGEST.get(name, MOST)) for name, value in (least | zero).items()}
        large = (
            f"{name} must be at most {bound:,}, got {value}."
            for name, (value, bound) in bounds.items()
            if value > bound
        )
        hours = () if 0 < self.hours <= MOST else (f"hours must be above 0 and at most {MOST:,}, got {self.hours}.",)
        raise_all(
            *check_min(1, **least),
            *check_min(0, **zero),
            *large,
            *hours,
            *wrong_name("title", self.title),
            self.wrong_corpus(),
        )

    def wrong_corpus(self) -> str | None:
        """Say what is wrong with the place of the texts."""
        if not self.corpus:
            return f"corpus must name a corpus ({', '.join(CORPORA)}) or a file, got {self.corpus!r}."
        if self.data_dir and self.corpus not in CORPORA:
            return suggest(self.corpus, "a corpus", CORPORA) + " For a file of your own, leave data_dir out."
        if self.corpus in CORPORA and not self.data_dir:
            return f"{self.corpus} is the name of a corpus. Give the folder of its files: data_dir = FOLDER."
        given, usual = asdict(self.data), asdict(DataConfig())
        unused = [name for name in given if given[name] != usual[name]]
        if self.corpus in CORPORA and unused:
            return f"{self.corpus} is read as it is: {', '.join(unused)} would change nothing. Leave [data] out."
        return None


@dataclass(frozen=True, slots=True)
class Condition:
    """One way to cut texts."""

    name: str
    """What it is called in tables; people who answer never see it."""
    kind: Kind = "model"
    """Who chooses the words: people (human), nobody (full_text), a saved model, or a lot."""
    model: str = ""
    """Folder of a saved model, for the kind model."""
    like: str = ""
    """The condition whose lengths random words have, for the random kinds."""

    def __post_init__(self) -> None:
        kinds = {"model": self.kind == "model", "like": self.kind in RANDOM}
        unfit = (problem for name, needed in kinds.items() for problem in self.wrong(name, needed))
        raise_all(*wrong_name("A condition's name", self.name), *unfit)

    def wrong(self, name: str, needed: bool) -> Iterator[str]:
        """Say whether a setting is missing, or of no use."""
        given = getattr(self, name)
        if needed and not given:
            yield f"A condition of the kind {self.kind} needs {name}."
        if given and not needed:
            yield f"{name} is of no use to the kind {self.kind}. Leave it out."


@dataclass(frozen=True, slots=True)
class Study:
    """A whole study file."""

    config: StudyConfig
    conditions: tuple[Condition, ...]
    labels: Mapping[str, str]
    """How people read some labels."""

    @property
    def question(self) -> str:
        """What is asked about each text."""
        return self.config.texts.question or QUESTIONS.get(self.config.corpus, "Which label fits this text?")


def read_study(path: Path) -> Study:
    """Read a study file; all that is wrong with it is told at once. Places in it are looked for beside it."""
    given = dict(read_toml(path))
    tables = {name: given.pop(name, {}) for name in ("conditions", "labels")}
    problems = [f"{name} must be a table, got {value!r}." for name, value in tables.items() if not _is_table(value)]
    conditions: list[Condition] = []
    config, given = None, dict(_well_written(given, problems))
    try:
        config = from_mapping(StudyConfig, _placed(given, path.parent, ("data_dir",)))
    except ConfigError as error:
        problems += str(error).splitlines()
    if _is_table(tables["conditions"]):
        conditions += _read_conditions(tables["conditions"], path.parent, problems)
    labels = tables["labels"] if _is_table(tables["labels"]) else {}
    problems += _wrong_labels(labels)
    if config is not None and "checks" in given and config.checks > config.sample:
        problems.append(f"checks must be at most sample, which is {config.sample:,}, got {config.checks}.")
    if problems or config is None:
        raise ConfigError("\n".join(f"In {path}: {problem}" for problem in problems))
    usual = SHOWN.get(config.corpus, {})
    if config.corpus not in CORPORA:
        config = from_mapping(StudyConfig, _placed(given, path.parent, ("corpus",)))
    return Study(config, tuple(conditions), {**labels, **{k: v for k, v in usual.items() if k not in labels}})


def _well_written(given: Mapping[str, Any], problems: list[str]) -> Iterator[tuple[str, Any]]:
    """Pass on what is written as TOML writes it, and gather numbers in quotation marks and parts of numbers.

    On a command line everything is text; in a file it says something.
    """
    known = {setting.path: setting for setting in list_settings(StudyConfig)}
    for name, value in flatten(given):
        setting = next((known[path] for path in known if f".{path}".endswith(f".{name}")), None)
        kinds = () if setting is None else union_types(setting.kind)
        wanted = next((kind for kind in kinds if kind in (int, float, bool)), None)
        if wanted is not None and isinstance(value, str):
            way_out = "Write it without quotation marks."
            problems.append(f"{name} must be {describe_type(wanted)}, got the text {value!r:.60}. {way_out}")
        elif wanted is int and isinstance(value, float):
            problems.append(f"{name} must be a whole number, got {value}. Write it without a point.")
        else:
            yield name, value


def _is_table(value: Any) -> bool:
    """Tell a table of TOML from other values."""
    return isinstance(value, Mapping)


def _placed(given: Mapping[str, Any], folder: Path, names: tuple[str, ...]) -> dict[str, Any]:
    """Look for places beside the study file."""
    places = {name: str(folder / given[name]) for name in names if isinstance(given.get(name), str) and given[name]}
    return {**given, **places}


def _read_conditions(tables: Mapping[str, Any], folder: Path, problems: list[str]) -> Iterator[Condition]:
    """Read all conditions, and gather what is wrong with them."""
    if not tables:
        problems.append("There are no conditions. Write a table for each, such as [conditions.human].")
    found: dict[str, Condition] = {}
    for name, table in tables.items():
        if not _is_table(table):
            problems.append(f"conditions.{name} must be a table, got {table!r}. Write [conditions.{name}].")
            continue
        if unfit := list(wrong_name("A condition's name", name)):
            problems += unfit
            continue
        if (kind := table.get("kind", "model")) not in get_args(Kind):  # what it needs beside it cannot be told
            problems.append(f"conditions.{name}: kind must be {describe_type(Kind)}, got {kind!r}.")
            continue
        try:
            found[name] = from_mapping(Condition, {**_placed(table, folder, ("model",)), "name": name})
        except ConfigError as error:
            problems += (f"conditions.{name}: {problem}" for problem in str(error).splitlines())
    for condition in found.values():
        like = tables.get(condition.like)
        if condition.like and like is None:
            problems.append(f"conditions.{condition.name}: {suggest(condition.like, 'a condition', tables)}")
        elif condition.like in found and found[condition.like].kind in (*RANDOM, "full_text"):
            problems.append(
                f"conditions.{condition.name}: like must name a condition of the kind model or human, and "
                f"{condition.like} is of the kind {found[condition.like].kind}."
            )
    problems += (
        f"conditions: {one!r} and {other!r} look alike. Give each its own name." for one, other in alike(found)
    )
    yield from found.values()


def _wrong_labels(labels: Mapping[str, Any]) -> Iterator[str]:
    """Say which labels cannot be shown, or not told apart."""
    for label, shown in labels.items():
        if not isinstance(shown, str):
            yield f"labels.{label} must be text that people can read, got {shown!r}. Write it in quotation marks."
        else:
            yield from wrong_name(f"labels.{label}", shown)
    texts = [shown for shown in labels.values() if isinstance(shown, str) and as_seen(shown)]
    for one, other in alike(texts):
        yield f"labels: {one!r} and {other!r} look alike. Give each label its own."
