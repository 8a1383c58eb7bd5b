"""What the folder of a saved model holds: written in one move, checked when read."""

import contextlib
import difflib
import hashlib
import json
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from operator import index
from pathlib import Path
from typing import Any

import torch

import fresh
from fresh._io import DIGEST, canonical_sha256
from fresh.attribution.config import ScorerConfig
from fresh.attribution.registry import CUSTOM, SCORERS, Scorer, ScorerFactory, make_scorer, scorer_to_dict
from fresh.attribution.support_model import SupportModel
from fresh.config import flatten, from_mapping
from fresh.errors import EncoderError, MissingExtraError, ModelError
from fresh.nn.classifier import ABOUT, Classifier
from fresh.nn.device import choose_device
from fresh.nn.encoder import digest_of, first_line
from fresh.nn.token_classifier import TokenClassifier
from fresh.predictor import Predictor
from fresh.reporting.report import Report
from fresh.selection.discretizers import discretizer_from_dict, discretizer_to_dict, is_finite_number
from fresh.selection.extractors import Extractor, FullText, HumanRationales, SaliencyExtractor
from fresh.selection.tagger import Tagger

FORMAT = 2
MANIFEST = "config.json"
CARD = "README.md"
RATIONALES = "rationales.json"
FINGERPRINTS = "trained_on.bin"
NEEDED = ("format", "labels", "chosen_by", "asks", "settings", "report", "ratios", "files")
"""What a manifest says of a model."""
FOLDERS = ("extractor/", "predictor/")
"""Folders in which nothing lies but what the manifest lists."""
MOST_NEAR = 5
"""Models that are named where one is missing."""
COPY = "Copy the model again, or train it again."
NO_DIGEST = (
    "{manifest} has no digest of itself, since an earlier version of fresh wrote it: a change of its settings or "
    "figures would not be seen. To mend it, load the model and save it again: "
    "Rationalizer.from_pretrained(folder).save_pretrained(folder, overwrite=True)."
)


REWRITTEN = f"{{folder}} is damaged: its {MANIFEST} has unexpected content. {COPY}"
CARD_CHANGED = (
    "{card} has changed since the model was saved, so its figures may not be the measured ones. "
    "The model files are unchanged."
)


@contextlib.contextmanager
def report_damage(folder: Path) -> Iterator[None]:
    """Say that a folder is damaged if its content makes the block fail: hostile files can make anything fail.

    Errors of the machine, such as too little memory or too many open files, are raised unchanged.
    """
    try:
        yield
    except FileNotFoundError as error:  # also of a file that a forged manifest does not list
        raise ModelError(f"{folder} is damaged: {error.filename or first_line(error)} is missing. {COPY}") from error
    except (ModelError, EncoderError, MissingExtraError, torch.OutOfMemoryError, MemoryError, OSError):
        raise
    except BaseException as error:
        # A panic of the tokenizers library, which is written in Rust, is no Exception.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        reason = f"{type(error).__name__}: {first_line(error)[:200]}"
        raise ModelError(f"{folder} is damaged: it cannot be loaded ({reason}). {COPY}") from error


@contextlib.contextmanager
def atomic_folder(folder: Path, overwrite: bool) -> Iterator[Path]:
    """Give a place to write a model to; it becomes the folder only when all is written."""
    check_writable(folder, overwrite)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as place:
        new, old = Path(place) / "new", Path(place) / "old"
        new.mkdir()
        yield new
        if folder.exists():
            folder.rename(old)
        try:
            new.rename(folder)
        except BaseException:  # also Ctrl-C: the old model goes back to its place, and the reason on its way
            if old.exists():
                old.rename(folder)
            raise


def check_writable(folder: Path, overwrite: bool) -> None:
    """Refuse to replace a model unless asked to, and anything else in any case."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise ModelError(f"{folder} is a file. Choose a folder for the model.")
    if (folder / MANIFEST).is_file() and _read_json(folder / MANIFEST).get("library") == "fresh":
        if not overwrite:
            raise ModelError(f"{folder} already holds a model. Choose another folder, or replace it: overwrite=True.")
    elif any(folder.iterdir()):
        raise ModelError(f"{folder} holds other files, which are not touched. Choose another folder for the model.")


def save_halves(folder: Path, extractor: Extractor, predictor: Predictor, about: Mapping[str, Any]) -> None:
    """Write both halves, and last the manifest with the digest of each file and of the card, which is there already."""
    record = _extractor_to_dict(extractor)
    place = folder / "extractor"
    if isinstance(extractor, HumanRationales):
        place.mkdir()
        (place / RATIONALES).write_text(json.dumps(extractor.spans), encoding="utf-8")
    elif isinstance(extractor, SaliencyExtractor) and isinstance(extractor.scorer, Tagger):
        extractor.scorer.network.save(place)
    elif isinstance(extractor, SaliencyExtractor) and extractor.support is not None:
        extractor.support.classifier.save(place)
    predictor.classifier.save(folder / "predictor")
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path != folder / CARD)
    manifest = {
        "library": "fresh",
        "format": FORMAT,
        "version": fresh.__version__,
        "labels": predictor.classifier.labels,
        "chosen_by": record,
        **about,
        "card": digest_of(folder / CARD),
        "files": {path.relative_to(folder).as_posix(): digest_of(path) for path in files},
    }
    manifest[DIGEST] = _manifest_digest(manifest)
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _manifest_digest(manifest: Mapping[str, Any]) -> str:
    """Digest all that a manifest says but the digest itself; how it is laid out does not matter."""
    said = json.loads(json.dumps({name: value for name, value in manifest.items() if name != DIGEST}))
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode("ascii")).hexdigest()


def load_halves(folder: Path, device: str, scorer: ScorerFactory | None) -> tuple[Extractor, Predictor, dict[str, Any]]:
    """Check a folder and read both halves and the manifest."""
    manifest = check_model(folder)
    predictor = load_predictor(folder / "predictor", device, manifest["asks"])
    return _read_extractor(folder, manifest, device, scorer), predictor, manifest


def load_predictor(place: Path, device: str, asks: bool = False) -> Predictor:
    """Read the half that answers."""
    return Predictor(_read_classifier(place, device, asks))


def _read_classifier(place: Path, device: str, asks: bool) -> Classifier:
    """Read a classifier whose labels are texts.

    :param asks: Whether it is known to read queries too.
    """
    choose_device(device)  # one that cannot be used is no damage
    with report_damage(place):
        classifier = Classifier.load(place, device)
        if not _is_labels(list(classifier.labels)):
            raise TypeError("the labels are not texts, each another one")
        classifier.check_outputs(place, asks)
        return classifier


def check_model(folder: Path, part: str = "") -> dict[str, Any]:
    """Refuse a folder that is no model, is from a newer version, or has changed since it was written.

    :param part: Only files whose names begin so are needed.
    """
    if not (folder / MANIFEST).is_file():
        raise ModelError(f"{folder} is no saved model: it has no {MANIFEST}. Name the folder that `fresh train` wrote.")
    manifest = _read_json(folder / MANIFEST)
    if manifest.get("library") != "fresh":
        raise ModelError(f"{folder} is no model of fresh: its {MANIFEST} was written by something else.")
    try:
        _check_manifest(folder, manifest)
        files = {name: digest for name, digest in manifest["files"].items() if name.startswith(part)}
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ModelError(REWRITTEN.format(folder=folder)) from error
    _check_files(folder, files, part)
    if not part:  # last: the warning says that the files are unchanged
        _check_card(folder, manifest.get("card"))
    return manifest


def _check_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    """Refuse a manifest of another version, and one that says other than what was written."""
    if manifest.get("format", 0) > FORMAT:
        raise ModelError(
            f"{folder} was written by a newer version of fresh (format {manifest['format']}, this one reads {FORMAT}). "
            "Bring it up to date: pip install -U fresh-rationales"
        )
    if manifest.get("format", FORMAT) < FORMAT:
        raise ModelError(
            f"{folder} was written by an older version of fresh (format {manifest['format']}, this one reads "
            f"{FORMAT}). Train it again."
        )
    missing = [name for name in NEEDED if name not in manifest]
    if missing:
        raise ModelError(f"{folder / MANIFEST} is damaged: {missing[0]} is missing. {COPY}")
    if not manifest["files"]:
        raise ModelError(f"{folder / MANIFEST} is damaged: it lists no files, so that none could be checked. {COPY}")
    if DIGEST not in manifest:
        warnings.warn(NO_DIGEST.format(manifest=folder / MANIFEST), stacklevel=2)
    elif manifest[DIGEST] != _manifest_digest(manifest):
        raise ModelError(f"{folder} is damaged: {MANIFEST} has changed. {COPY}")
    right_kinds = (
        _is_labels(manifest["labels"]),
        isinstance(manifest["chosen_by"], dict) and "kind" in manifest["chosen_by"],
        isinstance(manifest["asks"], bool),
        isinstance(manifest["settings"], dict),
        manifest["ratios"] is None or _is_range(manifest["ratios"]),
    )
    if not all(right_kinds):
        raise ModelError(REWRITTEN.format(folder=folder))


def _is_labels(value: object) -> bool:
    """Recognise a list of texts, each another one."""
    return isinstance(value, list) and all(isinstance(label, str) for label in value) and len(set(value)) == len(value)


def _is_range(value: object) -> bool:
    """Recognise the lowest and the highest of some shares."""
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(map(is_finite_number, value))
        and 0 < value[0] <= value[1] <= 1
    )


def _check_card(folder: Path, digest: str | None) -> None:
    """Warn of a card that has changed: people add to it, a license for example, and no answer depends on it.

    :param digest: None in a model that was saved before cards had one.
    """
    if digest is not None and not ((folder / CARD).is_file() and digest_of(folder / CARD) == digest):
        warnings.warn(CARD_CHANGED.format(card=folder / CARD), stacklevel=2)


def _check_files(folder: Path, digests: Mapping[str, str], part: str) -> None:
    """Refuse files that are missing, have changed, or do not belong to the model.

    :param part: Other files are looked at only where their names begin so.
    """
    for name, digest in digests.items():
        if not (folder / name).is_file():
            raise ModelError(f"{folder} is damaged: {name} is missing. {COPY}")
        if digest_of(folder / name) != digest:
            raise ModelError(f"{folder} is damaged: {name} has changed. {COPY}")
    for half in FOLDERS:
        for name in visible_files(folder / half) if half.startswith(part) else ():
            if half + name not in digests:
                raise ModelError(
                    f"{folder} holds {half}{name}, which is not part of the model and might be read as if it were. "
                    "Take it out."
                )


def suggest_models(missing: Path) -> str:
    """Say what there is near a folder that is not there: models of like names first."""
    parent = next(place for place in missing.absolute().parents if place.is_dir())
    if parent != missing.absolute().parent:
        return f"Of its path, only {parent} is there. Look at the spelling."
    models = sorted(place.name for place in parent.iterdir() if os.path.isfile(place / MANIFEST))  # noqa: PTH113
    alike = difflib.get_close_matches(missing.name, models, n=MOST_NEAR, cutoff=0.5) or models[:MOST_NEAR]
    if not alike:
        return f"There is no saved model in {parent}. Name the folder that `fresh train` wrote."
    return f"Near it are: {', '.join(alike)}. Name one of them, or owner/name for a model on the hub."


def find_predictor(folder: Path) -> Path:
    """Find the predictor in the folder of a model, whose other half may be missing, or take its folder by itself."""
    if (folder / ABOUT).is_file():
        return folder
    check_model(folder, "predictor/")
    return folder / "predictor"


def predictor_digest(place: Path) -> str:
    """Compute one digest over all files of a predictor and their names, hidden files left out."""
    return digest_of_digests({name: digest_of(place / name) for name in visible_files(place)})


def digest_of_digests(digests: Mapping[str, str]) -> str:
    """Compute one digest of the digests of files, by their names in order."""
    return canonical_sha256([[name, digest] for name, digest in digests.items()])


def visible_files(place: Path) -> list[str]:
    """Name all files below a folder, hidden ones left out."""
    names = sorted(path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file())
    return [name for name in names if not any(part.startswith(".") for part in name.split("/"))]


def _read_json(path: Path) -> dict[str, Any]:
    """Read a manifest."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path} is damaged: {error}. {COPY}") from error
    if not isinstance(found, dict):
        raise ModelError(f"{path} is damaged: it holds no object. {COPY}")
    return found


def _extractor_to_dict(extractor: Extractor) -> dict[str, Any]:
    """Write down how words are chosen."""
    if isinstance(extractor, FullText):
        return {"kind": "keep_all"}
    if isinstance(extractor, HumanRationales):
        return {"kind": "human"}
    if isinstance(extractor, SaliencyExtractor):
        tags = isinstance(extractor.scorer, Tagger)
        return {
            "kind": "tagger" if tags else "saliency",
            "scorer": {} if tags else scorer_to_dict(extractor.scorer),
            "discretizer": discretizer_to_dict(extractor.discretizer),
        }
    raise ModelError(f"{type(extractor).__name__} cannot be saved. There are: SaliencyExtractor, HumanMarks, KeepAll.")


def _read_extractor(folder: Path, manifest: Mapping[str, Any], device: str, scorer: ScorerFactory | None) -> Extractor:
    """Read back how words are chosen."""
    record, asks = manifest["chosen_by"], manifest["asks"]
    with report_damage(folder):
        if record["kind"] == "keep_all":
            return FullText()
        place = folder / "extractor"
        if record["kind"] == "human":
            found = json.loads((place / RATIONALES).read_text(encoding="utf-8"))
            return HumanRationales(
                {key: tuple((index(start), index(end)) for start, end in spans) for key, spans in found.items()}
            )
        if record["kind"] == "tagger":
            tags = TokenClassifier.load(place, device)
            tags.check_outputs(place, asks)
            return SaliencyExtractor(Tagger(tags), discretizer_from_dict(record["discretizer"]))
        support = SupportModel(_read_classifier(place, device, asks)) if place.is_dir() else None
        discretizer = discretizer_from_dict(record["discretizer"])
        if scorer is None or support is None:
            return SaliencyExtractor(_read_scorer(folder, record["scorer"], support), discretizer, support)
    # Outside the block: an error of the caller's own scorer is no damage.
    return SaliencyExtractor(scorer(support), discretizer, support)


def _read_scorer(folder: Path, record: Mapping[str, Any], support: SupportModel | None) -> Scorer:
    """Make the scorer that a manifest names."""
    settings = {key: value for key, value in record.items() if key not in {"name", "support"}}
    if record["name"] == CUSTOM:
        raise ModelError(
            f"{folder} was trained with a scorer of its own, {settings['class']}, which is not saved with it. "
            "Give it: Rationalizer.from_pretrained(folder, scorer=...)."
        )
    if record["name"] not in SCORERS:
        raise ModelError(f"{folder} uses the scorer {record['name']}, which this version does not know.")
    known = {setting.name for setting in fields(ScorerConfig)} & settings.keys()
    try:
        config = from_mapping(ScorerConfig, {key: settings[key] for key in known})
        if config.layer == "all" and record["name"] == "attention":
            raise ValueError("layer must be a number for the scorer attention, got all.")
        if config.layer != "all" and "layer" in known and support is not None:
            support.classifier.encoder.below(config.layer)  # refuses a layer that there is not
        return make_scorer(record["name"], support, settings | {key: getattr(config, key) for key in known})
    except ValueError as error:
        raise ModelError(
            f"{folder / MANIFEST} is damaged: settings of the scorer {record['name']} cannot be used. {error} {COPY}"
        ) from error


def read_files(folder: Path) -> dict[str, bytes]:
    """Read all files of a folder, by their names inside it."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def write_files(files: Mapping[str, bytes], folder: Path) -> None:
    """Write files that were read from a folder to another."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def remove_folder(folder: Path) -> None:
    """Remove a folder of ours that is no longer needed."""
    shutil.rmtree(folder, ignore_errors=True)


CARD_TEXT = """\
# {name}

A text classifier that shows exactly the words each answer was made from. It is a pair: an extractor chooses words of a
document, and a predictor reads them{query} **and nothing else**. Given the words shown{query}, nothing else can change
the answer. Other words can change which words are shown.
{method}

Labels: {labels}.{asks}

## Use

```python
from fresh import Rationalizer

model = Rationalizer.from_pretrained("{name}")
explanation = model.explain({call})
print(explanation.prediction.label, explanation.rationale.words)
```

or `fresh explain {name} "Some text."{flag}`

## Measured

{report}

What the guarantee covers: the answer is a function of the words shown{query}. Their number is part of that: the
predictor can count them. What it does not cover: why the extractor, which reads the whole document, chose these words.

## Settings

{settings}
"""

CARD_METHODS = {
    "fresh": "The method is FRESH ([Jain et al., 2020](https://aclanthology.org/2020.acl-main.409/)): the predictor "
    "was trained on such rationales alone.",
    "lei": "Both were trained together ([Lei et al., 2016](https://aclanthology.org/D16-1011/)).",
    "bastings": "Both were trained together ([Bastings et al., 2019](https://aclanthology.org/P19-1284/)).",
    "full_text": "Here the extractor keeps every word: a model to compare others with.",
    "random": "Here the words are drawn by lot: a model to compare others with.",
    "human": "Here people chose the words, and only documents that they marked can be explained.",
}


def card_text(name: str, labels: Sequence[str], asks: bool, settings: Mapping[str, Any], report: Report | None) -> str:
    """Write what a reader of the model's page should know."""
    table = "Nothing was measured when it was saved."
    if report is not None:
        table = f"On {report.n_documents} test documents:\n\n{report.to_markdown()}"
    return CARD_TEXT.format(
        name=name,
        method=CARD_METHODS.get(str(settings.get("method")), CARD_METHODS["fresh"]),
        labels=", ".join(f"`{label}`" for label in labels),
        query=" and the query" if asks else "",
        asks=" Each document comes with a query." if asks else "",
        call='"Some text.", query="A question?"' if asks else '"Some text."',
        flag=' --query "A question?"' if asks else "",
        report=table.strip(),
        settings="\n".join(f"- `{key}`: {value}" for key, value in flatten(settings)) or "Not written down.",
    )
