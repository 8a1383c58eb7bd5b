"""Settings of a study (STUDY.toml): which documents are shown to how many people, and who selects the words."""

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
from fresh.study.display import check_name, find_lookalikes, normalize_name

Kind = Literal["human", "full_text", "model", "random_contiguous", "random_non_contiguous"]
RANDOM_KINDS = ("random_contiguous", "random_non_contiguous")
MAX_NUMBER = 1_000_000
MAX_NUMBERS = {"per_item": 1_000, "annotators": 10_000, "practice": 1_000, "examples": 1_000, "checks": 1_000}
"""Upper limits of some settings; the others take up to a million."""
CORPUS_LABELS = {
    "movies": {"NEG": "Negative", "POS": "Positive"},
    "sst": {"0": "Negative", "1": "Positive"},
    "multirc": {"False": "No", "True": "Yes"},
}
"""How people read the labels of some corpora, unless the study file says otherwise."""
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
    """What people read before and beside the items."""

    consent: str = (
        "In this study you read texts and answer three questions about each. Taking part is voluntary: you can stop "
        "at any time without giving a reason. We store your answers and how long each one took, and nothing that says "
        "who you are. The answers are used for research and may be published. If you agree, continue."
    )
    """What people agree to before they see anything else."""
    instructions: str = (
        "Each page shows a text, or only some words of one: the words before, between and after them are left out. "
        "Choose the label that fits best, based only on what you see. Then say how confident you are, and how easy "
        "the words are to read and understand. If you cannot tell, choose the label that seems more likely, and say "
        f"that you are not confident.{PRACTICE_NOTE}"
    )
    """The task, as people read it."""
    question: str | None = None
    """Question about each text; by default, one that fits the corpus."""
    thanks: str = "That was the last text. Thank you for your help!"
    """What people read at the end."""

    def __post_init__(self) -> None:
        texts = {name: getattr(self, name) for name in ("consent", "instructions", "question", "thanks")}
        empty = [name for name, text in texts.items() if text is not None and not normalize_name(text)]
        raise_all(*(f"texts.{name} must contain visible text. Write some, or leave it out." for name in empty))


@dataclass(frozen=True, slots=True)
class StudyConfig:
    """Settings of a study beside its conditions and labels."""

    corpus: str = ""
    """One of the paper's corpora (with data_dir), of which the test part is used, or your own file."""
    data_dir: str = ""
    """Folder with the files of a named corpus."""
    title: str = "Reading study"
    """Title of every page."""
    sample: int = 100
    """Documents to draw, with the same mix of labels as the corpus."""
    seed: int = 0
    """Seed for the documents, the random words, and the order in which each annotator reads."""
    per_item: int = 3
    """Annotators of each item."""
    annotators: int = 0
    """Sign-in codes to make at first; 0 makes as many as the study needs if everybody finishes."""
    most: int = 0
    """Maximum number of items for one annotator; 0 means one of every document."""
    practice: int = 4
    """Practice items, with feedback, from documents outside the sample."""
    examples: int = 2
    """Examples in the instructions, with their labels, from further documents; fewer if there are not enough."""
    checks: int = 3
    """Attention checks for each annotator; at most one a document."""
    hours: float = 24.0
    """After this many hours without an answer, an item is offered to another annotator."""
    casing: Literal["lower", "kept"] = "lower"
    """Lower-case all texts, or keep them as the corpus has them; the same for all conditions."""
    texts: StudyTexts = field(default_factory=StudyTexts)
    data: DataConfig = field(default_factory=DataConfig)

    def __post_init__(self) -> None:
        positive = {"sample": self.sample, "per_item": self.per_item}
        others = {
            name: getattr(self, name) for name in ("seed", "annotators", "most", "practice", "examples", "checks")
        }
        bounds = {name: (value, MAX_NUMBERS.get(name, MAX_NUMBER)) for name, value in (positive | others).items()}
        raise_all(
            *check_min(1, **positive),
            *check_min(0, **others),
            *(f"{n} must be at most {bound:,}, got {value}." for n, (value, bound) in bounds.items() if value > bound),
            None if 0 < self.hours <= MAX_NUMBER else f"hours must be in (0, {MAX_NUMBER:,}], got {self.hours}.",
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
    """What selects the words: people (human), nothing (full_text), a saved model, or chance."""
    model: str = ""
    """Folder of a saved model, for the kind model."""
    like: str = ""
    """Condition whose lengths random words have, for the random kinds."""

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
    """A whole study file."""

    config: StudyConfig
    conditions: tuple[Condition, ...]
    labels: Mapping[str, str]
    """How people read some labels."""

    @property
    def question(self) -> str:
        """Return the question about each text."""
        return self.config.texts.question or CORPUS_QUESTIONS.get(self.config.corpus, "Which label fits this text?")


def read_study(path: Path) -> Study:
    """Read a study file, and report all its problems at once; paths in it are relative to its folder."""
    settings = dict(read_toml(path))
    tables = {name: settings.pop(name, {}) for name in ("conditions", "labels")}
    problems = [f"{name} must be a table, got {value!r}." for name, value in tables.items() if not _is_table(value)]
    conditions: list[Condition] = []
    config, settings = None, dict(_check_types(settings, problems))
    try:
        config = from_mapping(StudyConfig, _resolve_paths(settings, path.parent, ("data_dir",)))
    except ConfigError as error:
        problems += str(error).splitlines()
    if _is_table(tables["conditions"]):
        conditions += _read_conditions(tables["conditions"], path.parent, problems)
    labels = tables["labels"] if _is_table(tables["labels"]) else {}
    problems += _label_problems(labels)
    if config is not None and "checks" in settings and config.checks > config.sample:
        problems.append(f"checks must be at most sample ({config.sample:,}), got {config.checks}.")
    if problems or config is None:
        raise ConfigError("\n".join(f"In {path}: {problem}" for problem in problems))
    defaults = CORPUS_LABELS.get(config.corpus, {})
    if config.corpus not in CORPORA:
        config = from_mapping(StudyConfig, _resolve_paths(settings, path.parent, ("corpus",)))
    return Study(config, tuple(conditions), {**labels, **{k: v for k, v in defaults.items() if k not in labels}})


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping)


def _check_types(settings: Mapping[str, Any], problems: list[str]) -> Iterator[tuple[str, Any]]:
    """Pass settings on, except numbers in quotation marks and fractions where a whole number is needed."""
    # The settings reader converts text, for the command line; in a TOML file, the type is a statement.
    known = {setting.path: setting for setting in list_settings(StudyConfig)}
    for name, value in flatten(settings):
        setting = next((known[path] for path in known if f".{path}".endswith(f".{name}")), None)
        kinds = () if setting is None else union_types(setting.kind)
        wanted = next((kind for kind in kinds if kind in (int, float, bool)), None)
        if wanted is not None and isinstance(value, str):
            way_out = "Write it without quotation marks."
            problems.append(f"{name} must be {describe_type(wanted)}, got the text {value!r:.60}. {way_out}")
        elif wanted is int and isinstance(value, float):
            problems.append(f"{name} must be a whole number, got {value}. Write it without a decimal point.")
        else:
            yield name, value


def _resolve_paths(settings: Mapping[str, Any], folder: Path, names: tuple[str, ...]) -> dict[str, Any]:
    paths = {n: str(folder / settings[n]) for n in names if isinstance(settings.get(n), str) and settings[n]}
    return {**settings, **paths}


def _read_conditions(tables: Mapping[str, Any], folder: Path, problems: list[str]) -> Iterator[Condition]:
    if not tables:
        problems.append("There are no conditions. Add a table for each, such as [conditions.human].")
    conditions: dict[str, Condition] = {}
    for name, table in tables.items():
        if not _is_table(table):
            problems.append(f"conditions.{name} must be a table, got {table!r}. Write [conditions.{name}].")
        elif bad_name := list(check_name("A condition's name", name)):
            problems += bad_name
        elif (kind := table.get("kind", "model")) not in get_args(Kind):
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
    yield from conditions.values()


def _label_problems(labels: Mapping[str, Any]) -> Iterator[str]:
    for label, shown in labels.items():
        if not isinstance(shown, str):
            yield f"labels.{label} must be text, got {shown!r}. Write it in quotation marks."
        else:
            yield from check_name(f"labels.{label}", shown)
    texts = [shown for shown in labels.values() if isinstance(shown, str) and normalize_name(shown)]
    for one, other in find_lookalikes(texts):
        yield f"labels: {one!r} and {other!r} look alike. Give each label a different text."
