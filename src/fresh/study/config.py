"""Settings of a study (STUDY.toml): which documents are shown to how many people, and who selects the words."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from fresh.config import describe_type, from_mapping, raise_all, read_toml, suggest
from fresh.data.config import DataConfig
from fresh.data.corpora import CORPORA
from fresh.errors import ConfigError
from fresh.study.display import check_name, find_lookalikes

Kind = Literal["human", "full_text", "model", "random_contiguous", "random_non_contiguous"]
RANDOM_KINDS = ("random_contiguous", "random_non_contiguous")
MILLION = 1_000_000
BOUNDS = {
    "sample": (1, MILLION),
    "seed": (0, MILLION),
    "per_item": (1, 1_000),
    "annotators": (0, 10_000),
    "most": (0, MILLION),
    "practice": (0, 1_000),
    "examples": (0, 1_000),
    "checks": (0, 1_000),
}
"""Smallest and largest value of each whole number; the upper bounds catch slips before codes and rows are made."""
CORPUS_LABELS = {
    "movies": {"NEG": "Negative", "POS": "Positive"},
    "sst": {"0": "Negative", "1": "Positive"},
    "multirc": {"False": "No", "True": "Yes"},
}
"""How annotators see the labels of some corpora, unless the study file says otherwise."""
CORPUS_QUESTIONS = {
    "movies": "Is this film review positive or negative?",
    "sst": "Is this sentence about a film positive or negative?",
    "agnews": "What is this news item about?",
    "evinf": "What does the text say about the question?",
    "multirc": "According to the text, is the answer to the question correct?",
}
PRACTICE_NOTE = (
    " You start with a few practice texts and see the right label after each answer. Now and then, a page asks you to "
    "choose specific answers, to check that you are reading: please choose those."
)
"""The part of the instructions about practice and attention checks, which other tools do not show."""
# Studies that earlier versions made have this in their instructions, which exports must remove too.
OLD_PRACTICE_NOTE = (
    " First come a few examples for practice, where you will see the right label after your answer. Now and then a "
    "page asks you to choose certain answers, to see that you are reading: choose those."
)


@dataclass(frozen=True, slots=True)
class StudyTexts:
    """Texts that annotators read before, beside and after the items."""

    consent: str = (
        "In this study you read texts and answer three questions about each. Taking part is voluntary: you can stop "
        "at any time without giving a reason. We store your answers and how long each one took, and nothing that says "
        "who you are. The answers are used for research and may be published. If you agree, continue."
    )
    """Shown first; annotators agree to it."""
    instructions: str = (
        "Each page shows a text, or only some words of one: the words before, between and after them are left out. "
        "Choose the label that fits best, based only on what you see. Then say how confident you are, and how easy "
        "the words are to read and understand. If you cannot tell, choose the label that seems more likely, and say "
        f"that you are not confident.{PRACTICE_NOTE}"
    )
    """Explanation of the task."""
    question: str | None = None
    """Question about each text; the default depends on the corpus."""
    thanks: str = "That was the last text. Thank you for your help!"
    """Shown at the end."""

    def __post_init__(self) -> None:
        empty = [name for name, text in asdict(self).items() if text is not None and not text.strip()]
        raise_all(*(f"texts.{name} must contain visible text. Write some, or leave it out." for name in empty))


@dataclass(frozen=True, slots=True)
class StudyConfig:
    """Settings of a study, apart from its conditions and labels."""

    corpus: str = ""
    """One of the paper's corpora (with data_dir), of which the test part is used, or your own file."""
    data_dir: str = ""
    """Folder with the files of a named corpus."""
    title: str = "Reading study"
    """Title of every page."""
    sample: int = 100
    """Number of documents, sampled with the same mix of labels as the corpus."""
    seed: int = 0
    """Seed for the documents, the random words, and each annotator's reading order."""
    per_item: int = 3
    """Number of annotators for each item."""
    annotators: int = 0
    """Number of sign-in codes to make at first; 0 makes enough for a study in which everybody finishes."""
    most: int = 0
    """Maximum number of items for one annotator; 0 means one item for each document."""
    practice: int = 4
    """Number of practice items, with feedback, from documents outside the sample."""
    examples: int = 2
    """Number of labeled examples in the instructions, from further documents; fewer if there are not enough."""
    checks: int = 3
    """Number of attention checks for each annotator; at most one for each document."""
    hours: float = 24.0
    """Hours without an answer after which an item is offered to another annotator."""
    casing: Literal["lower", "kept"] = "lower"
    """Lowercase all texts, or keep the casing of the corpus; the same for all conditions."""
    texts: StudyTexts = field(default_factory=StudyTexts)
    data: DataConfig = field(default_factory=DataConfig)

    def __post_init__(self) -> None:
        raise_all(
            *(
                f"{name} must be from {low} to {high:,}, got {value}."
                for name, (low, high) in BOUNDS.items()
                if not low <= (value := getattr(self, name)) <= high
            ),
            None if 0 < self.hours <= MILLION else f"hours must be in (0, {MILLION:,}], got {self.hours}.",
            *check_name("title", self.title),
            self._corpus_problem(),
        )

    def _corpus_problem(self) -> str | None:
        if not self.corpus:
            return f"corpus must name a corpus ({', '.join(CORPORA)}) or a file, got {self.corpus!r}."
        if self.data_dir and self.corpus not in CORPORA:
            return suggest(self.corpus, "a corpus", CORPORA) + " For your own file, leave data_dir out."
        if self.corpus in CORPORA and not self.data_dir:
            return f"{self.corpus} is a corpus of the paper. Set data_dir to the folder that holds its files."
        data, defaults = asdict(self.data), asdict(DataConfig())
        unused = [name for name in data if data[name] != defaults[name]]
        if self.corpus in CORPORA and unused:
            return f"{', '.join(unused)} has no effect on {self.corpus}, which has its own format. Leave [data] out."
        return None


@dataclass(frozen=True, slots=True)
class Condition:
    """One way to select words."""

    name: str
    """Name in tables; annotators never see it."""
    kind: Kind = "model"
    """How words are selected: by people (human), all of them (full_text), by a saved model, or at random."""
    model: str = ""
    """Folder of a saved model, for the kind model."""
    like: str = ""
    """Condition whose rationale lengths the random words copy, for the random kinds."""

    def __post_init__(self) -> None:
        needed = {"model": self.kind == "model", "like": self.kind in RANDOM_KINDS}
        missing = [name for name in needed if needed[name] and not getattr(self, name)]
        unused = [name for name in needed if getattr(self, name) and not needed[name]]
        raise_all(
            *check_name("A condition's name", self.name),
            *(f"A condition of kind {self.kind} needs {name}." for name in missing),
            *(f"{name} has no effect on a condition of kind {self.kind}. Leave it out." for name in unused),
        )


@dataclass(frozen=True, slots=True)
class Study:
    """The content of a study file."""

    config: StudyConfig
    conditions: tuple[Condition, ...]
    labels: Mapping[str, str]  # how annotators see some of the labels

    @property
    def question(self) -> str:
        """Return the question about each text."""
        return self.config.texts.question or CORPUS_QUESTIONS.get(self.config.corpus, "Which label fits this text?")


def read_study(path: Path) -> Study:
    """Read a study file, and report all its problems at once; paths in it are relative to its folder."""
    settings = read_toml(path)
    problems: list[str] = []
    tables: dict[str, Mapping[str, Any]] = {}
    for name in ("conditions", "labels"):
        table = settings.pop(name, {})
        tables[name] = table if isinstance(table, Mapping) else {}
        if not isinstance(table, Mapping):
            problems.append(f"{name} must be a table, got {table!r}.")
    # A name without data_dir is a file; a corpus without its folder stays a name, so that the message can say so.
    is_file = not settings.get("data_dir") and settings.get("corpus") not in CORPORA
    config = None
    try:
        names = ("corpus", "data_dir") if is_file else ("data_dir",)
        config = from_mapping(StudyConfig, _resolve_paths(settings, path.parent, names))
    except ConfigError as error:
        problems += str(error).splitlines()
    conditions = _read_conditions(tables["conditions"], path.parent, problems)
    labels = tables["labels"]
    problems += [
        f"labels.{label} must be text, got {shown!r}. Write it in quotation marks."
        for label, shown in labels.items()
        if not isinstance(shown, str)
    ]
    if problems or config is None:
        raise ConfigError("\n".join(f"In {path}: {problem}" for problem in problems))
    defaults = CORPUS_LABELS.get(config.corpus, {})
    return Study(config, conditions, {**labels, **{k: v for k, v in defaults.items() if k not in labels}})


def _resolve_paths(settings: Mapping[str, Any], folder: Path, names: tuple[str, ...]) -> dict[str, Any]:
    paths = {n: str(folder / settings[n]) for n in names if isinstance(settings.get(n), str) and settings[n]}
    return {**settings, **paths}


def _read_conditions(tables: Mapping[str, Any], folder: Path, problems: list[str]) -> tuple[Condition, ...]:
    if not tables:
        problems.append("There are no conditions. Add a table for each, such as [conditions.human].")
    conditions: dict[str, Condition] = {}
    for name, table in tables.items():
        if not isinstance(table, Mapping):
            problems.append(f"conditions.{name} must be a table, got {table!r}. Write [conditions.{name}].")
        elif (kind := table.get("kind", "model")) not in get_args(Kind):
            # Checked first: what else a condition needs depends on its kind.
            problems.append(f"conditions.{name}: kind must be {describe_type(Kind)}, got {kind!r}.")
        else:
            try:
                conditions[name] = from_mapping(Condition, {**_resolve_paths(table, folder, ("model",)), "name": name})
            except ConfigError as error:
                problems += (f"conditions.{name}: {problem}" for problem in str(error).splitlines())
    for condition in conditions.values():
        if condition.like and condition.like not in tables:
            problems.append(f"conditions.{condition.name}: {suggest(condition.like, 'a condition', tables)}")
        elif (other := conditions.get(condition.like)) and other.kind in (*RANDOM_KINDS, "full_text"):
            problems.append(
                f"conditions.{condition.name}: like must name a condition of kind model or human, but {other.name} is "
                f"of kind {other.kind}."
            )
    problems += (
        f"conditions: {one!r} and {other!r} look alike. Give each a different name."
        for one, other in find_lookalikes(conditions)
    )
    return tuple(conditions.values())
