"""The folder of a saved model: written in one move, checked when it is read."""

import contextlib
import hashlib
import json
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
from fresh._io import DIGEST, canonical_sha256, check_output_folder
from fresh.attribution import CUSTOM, SCORERS, Scorer, ScorerFactory, make_scorer, scorer_to_dict
from fresh.attribution.config import ScorerConfig
from fresh.attribution.support_model import SupportModel
from fresh.config import flatten, from_mapping, is_finite_number
from fresh.errors import MissingExtraError, ModelError, OutputError, first_line
from fresh.nn.classifier import Classifier
from fresh.nn.device import choose_device
from fresh.nn.encoder import digest_of
from fresh.nn.token_classifier import TokenClassifier
from fresh.predictor import Predictor
from fresh.reporting.report import Report
from fresh.selection.discretizers import discretizer_from_dict, discretizer_to_dict
from fresh.selection.extractors import Extractor, FullText, HumanRationales, SaliencyExtractor
from fresh.selection.tagger import Tagger

FORMAT = 2
MANIFEST = "config.json"
CARD = "README.md"
RATIONALES = "rationales.json"
FINGERPRINTS = "trained_on.bin"
READER = "reader/"
_PARTS = ("extractor/", "predictor/", READER)  # they hold only files that the manifest lists
_FIX = "Copy the model again, or train it again."
NO_DIGEST = (
    "{manifest} has no digest of itself, so changes to its settings and figures cannot be detected. Folders that an "
    "early version of fresh wrote have none; in any other folder, somebody removed it. If you trust this folder, load "
    "the model and save it again: Rationalizer.from_pretrained(folder).save_pretrained(folder, overwrite=True)."
)


@contextlib.contextmanager
def atomic_folder(folder: Path, overwrite: bool) -> Iterator[Path]:
    """Yield a folder to write a model to; it takes its place only when the block ends without an error."""
    check_writable(folder, overwrite)
    # Next to its place, since a rename is atomic only within a file system.
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as place:
        new, old = Path(place) / "new", Path(place) / "old"
        new.mkdir()
        yield new
        if folder.exists():
            folder.rename(old)
        try:
            new.rename(folder)
        except BaseException:  # Ctrl-C too must bring the old model back
            if old.exists():
                old.rename(folder)
            raise


def check_writable(folder: Path, overwrite: bool) -> None:
    """Raise unless a model can be written to a folder; only a model is ever replaced."""
    if not (folder / MANIFEST).is_file() or _read_json(folder / MANIFEST).get("library") != "fresh":
        check_output_folder(folder, "the model")
    elif not overwrite:
        raise OutputError(f"{folder} already holds a model. Choose another folder, or replace it: overwrite=True.")


def save_halves(folder: Path, extractor: Extractor, predictor: Predictor, about: Mapping[str, Any]) -> None:
    """Write both halves, then the manifest with the digests of all files and of the card, which must exist."""
    chosen_by = _save_extractor(folder / "extractor", extractor)
    predictor.classifier.save(folder / "predictor")
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path != folder / CARD)
    manifest = {
        "library": "fresh",
        "format": FORMAT,
        "version": fresh.__version__,
        "labels": predictor.classifier.labels,
        "chosen_by": chosen_by,
        **about,
        "card": digest_of(folder / CARD),
        "files": {path.relative_to(folder).as_posix(): digest_of(path) for path in files},
    }
    manifest[DIGEST] = manifest_digest(manifest)
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def manifest_digest(manifest: Mapping[str, Any]) -> str:
    """Compute the digest of all fields of a manifest but the digest itself; layout does not matter."""
    # Not canonical_json: a manifest holds floats, and folders of earlier versions have this digest.
    content = json.dumps({name: value for name, value in manifest.items() if name != DIGEST}, sort_keys=True)
    return hashlib.sha256(content.encode("ascii")).hexdigest()


def _save_extractor(place: Path, extractor: Extractor) -> dict[str, Any]:
    if isinstance(extractor, FullText):
        return {"kind": "keep_all"}
    if isinstance(extractor, HumanRationales):
        place.mkdir()
        (place / RATIONALES).write_text(json.dumps(extractor.spans), encoding="utf-8")
        return {"kind": "human"}
    if not isinstance(extractor, SaliencyExtractor):
        known = "SaliencyExtractor, HumanRationales, FullText"
        raise ModelError(f"{type(extractor).__name__} cannot be saved. There are: {known}.")
    discretizer, scorer = discretizer_to_dict(extractor.discretizer), extractor.scorer
    if isinstance(scorer, Tagger):
        scorer.network.save(place)
        return {"kind": "tagger", "scorer": {}, "discretizer": discretizer}
    if extractor.support is not None:
        extractor.support.classifier.save(place)
    return {"kind": "saliency", "scorer": scorer_to_dict(scorer), "discretizer": discretizer}


# Reading. A folder may come from anywhere: nothing in it is trusted, and whatever it holds is refused with a message.


@contextlib.contextmanager
def report_damage(place: Path) -> Iterator[None]:
    """Say that a folder or file is damaged if its content makes the block fail, in whatever way."""
    try:
        yield
    except FileNotFoundError as error:  # also of a file that a forged manifest does not list
        raise ModelError(f"{place} is damaged: {error.filename or first_line(error)} is missing. {_FIX}") from error
    except (ModelError, MissingExtraError, torch.OutOfMemoryError, MemoryError, OSError):
        raise  # too little memory or too many open files: an error of the machine is no damage
    except BaseException as error:
        # A panic of the tokenizers library, which is written in Rust, is not an Exception.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        reason = f"{type(error).__name__}: {first_line(error)[:200]}"
        raise ModelError(f"{place} is damaged: it cannot be loaded ({reason}). {_FIX}") from error


def load_predictor(place: Path, device: str, needs_query: bool = False) -> Predictor:
    """Load the half that answers."""
    choose_device(device)  # outside the block: a device that cannot be used is no damage
    with report_damage(place):
        classifier = Classifier.load(place, device)
        labels = classifier.labels
        if not all(isinstance(label, str) for label in labels) or len(set(labels)) < len(labels):
            raise TypeError("the labels are not distinct strings")
        classifier.check_outputs(place, needs_query)
        return Predictor(classifier)


def check_model(folder: Path, part: str = "", but: str | None = None) -> dict[str, Any]:
    """Raise for a folder that is not a model, is from another version, or has changed since it was written.

    :param part: Check only files whose names start with this.
    :param but: Do not check files whose names start with this, which are not read.
    :return: The manifest.
    """

    def is_read(name: str) -> bool:
        return name.startswith(part) and (but is None or not name.startswith(but))

    if not (folder / MANIFEST).is_file():
        raise ModelError(
            f"{folder} is not a saved model: it has no {MANIFEST}. Give a folder that `fresh train` wrote."
        )
    manifest = _read_json(folder / MANIFEST)
    if manifest.get("library") != "fresh":
        raise ModelError(f"{folder} is not a model of fresh: another program wrote its {MANIFEST}.")
    with report_damage(folder / MANIFEST):
        _check_manifest(folder, manifest)
        digests = {name: digest for name, digest in manifest["files"].items() if is_read(name)}
    for name, digest in digests.items():
        if not (folder / name).is_file():
            raise ModelError(f"{folder} is damaged: {name} is missing. {_FIX}")
        if digest_of(folder / name) != digest:
            raise ModelError(f"{folder} is damaged: {name} has changed. {_FIX}")
    # Loaders look for more files than were saved, such as added_tokens.json: one that is added could change answers.
    present = [own + name for own in _PARTS if is_read(own) for name in visible_files(folder / own)]
    if added := sorted({*present} - {*digests}):
        raise ModelError(f"{folder} holds {added[0]}, which is not part of the model but could be read. Remove it.")
    # People add to a card, a license for example, and no answer depends on it. Old models have no digest of it.
    card = manifest.get("card")
    if not part and card is not None and not ((folder / CARD).is_file() and digest_of(folder / CARD) == card):
        warnings.warn(
            f"{folder / CARD} has changed since the model was saved, so its figures may not be the measured ones. "
            "The model files are unchanged.",
            stacklevel=2,
        )
    return manifest


def _check_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    if manifest.get("format") != FORMAT:
        raise ModelError(
            f"{folder} has format {manifest.get('format')}, but this version of fresh reads format {FORMAT}. "
            "Update fresh (pip install -U fresh-rationales), or train the model again."
        )
    if DIGEST not in manifest:
        warnings.warn(NO_DIGEST.format(manifest=folder / MANIFEST), stacklevel=3)
    elif manifest[DIGEST] != manifest_digest(manifest):
        raise ModelError(f"{folder} is damaged: {MANIFEST} has changed. {_FIX}")
    # A forger can compute the digest, so what is used without another check is checked here.
    if not isinstance(manifest["asks"], bool) or not isinstance(manifest["settings"], dict):
        raise TypeError("asks or settings have another type")
    if manifest["ratios"] is not None:
        low, high = manifest["ratios"]
        if not (is_finite_number(low) and is_finite_number(high) and 0 < low <= high <= 1):
            raise ValueError("ratios is not a range of ratios")


def _read_json(path: Path) -> dict[str, Any]:
    with report_damage(path):
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise TypeError("it does not hold a JSON object")
        return content


def load_extractor(folder: Path, manifest: Mapping[str, Any], device: str, scorer: ScorerFactory | None) -> Extractor:
    """Load the half that selects words."""
    place, needs_query = folder / "extractor", manifest["asks"]
    with report_damage(folder):
        record = manifest["chosen_by"]
        if record["kind"] == "keep_all":
            return FullText()
        if record["kind"] == "human":
            content = json.loads((place / RATIONALES).read_text(encoding="utf-8")).items()
            return HumanRationales({key: tuple((index(a), index(b)) for a, b in spans) for key, spans in content})
        discretizer = discretizer_from_dict(record["discretizer"])
        if record["kind"] == "tagger":
            network = TokenClassifier.load(place, device)
            network.check_outputs(place, needs_query)
            return SaliencyExtractor(Tagger(network), discretizer)
        # The support model is saved as a predictor is.
        support = SupportModel(load_predictor(place, device, needs_query).classifier) if place.is_dir() else None
        if scorer is None or support is None:
            return SaliencyExtractor(_load_scorer(folder, record["scorer"], support), discretizer, support)
    # Outside the block: an error of the caller's own scorer is no damage.
    return SaliencyExtractor(scorer(support), discretizer, support)


def _load_scorer(folder: Path, record: Mapping[str, Any], support: SupportModel | None) -> Scorer:
    name, settings = record["name"], {key: record[key] for key in record.keys() - {"name", "support"}}
    if name == CUSTOM:
        problem = f"{folder} was trained with a custom scorer, {settings['class']}, which is not saved with the model."
        raise ModelError(f"{problem} Pass it: Rationalizer.from_pretrained(folder, scorer=...).")
    if name not in SCORERS:
        raise ModelError(f"{folder} uses the scorer {name}, which this version does not know.")
    # Through the settings class, which bounds them: a forged number of steps could keep a computer busy for ever.
    known = {setting.name for setting in fields(ScorerConfig)} & settings.keys()
    config = from_mapping(ScorerConfig, {key: settings[key] for key in known})
    if config.layer == "all" and name == "attention":
        raise ValueError("layer must be a number for the scorer attention, got all.")
    if config.layer != "all" and "layer" in known and support is not None:
        support.classifier.encoder.module_below(config.layer)  # raises for a layer that does not exist
    return make_scorer(name, support, settings | {key: getattr(config, key) for key in known})


def find_predictor(folder: Path) -> Path:
    """Find the predictor in a model's folder, whose other half may be missing, or accept a predictor's own folder."""
    if (folder / Classifier.ABOUT).is_file():
        return folder
    check_model(folder, "predictor/")
    return folder / "predictor"


def predictor_digest(place: Path) -> str:
    """Compute one digest of all files of a predictor and their names, without hidden files."""
    return digest_of_digests({name: digest_of(place / name) for name in visible_files(place)})


def digest_of_digests(digests: Mapping[str, str]) -> str:
    """Compute one digest of the digests of files, by their names in order."""
    return canonical_sha256([[name, digest] for name, digest in digests.items()])


def visible_files(place: Path) -> list[str]:
    """Name all files below a folder but the hidden ones."""
    names = sorted(path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file())
    return [name for name in names if not any(part.startswith(".") for part in name.split("/"))]


def read_files(folder: Path) -> dict[str, bytes]:
    """Read all files of a folder, by their names inside it."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def write_files(files: Mapping[str, bytes], folder: Path) -> None:
    """Write what :func:`read_files` returned."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def remove_folder(folder: Path) -> None:
    """Remove a folder of ours that is no longer needed."""
    shutil.rmtree(folder, ignore_errors=True)


CARD_TEXT = """\
# {name}

A text classifier that shows exactly the words each answer was computed from. It is a pair: an extractor selects words
of a document, and a predictor reads them{query} **and nothing else**. Given the words shown{query}, nothing else can
change the answer. Other words can change which words are shown.
{method}

Labels: {labels}.{each}

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
predictor can count them. What it does not cover: why the extractor, which reads the whole document, selected these
words.

## Settings

{settings}
"""

CARD_METHODS = {
    "fresh": "The method is FRESH ([Jain et al., 2020](https://aclanthology.org/2020.acl-main.409/)): the predictor "
    "was trained on such rationales alone.",
    "lei": "Both were trained together ([Lei et al., 2016](https://aclanthology.org/D16-1011/)).",
    "bastings": "Both were trained together ([Bastings et al., 2019](https://aclanthology.org/P19-1284/)).",
    "full_text": "Here the extractor keeps every word: a baseline.",
    "random": "Here the words are sampled at random: a baseline.",
    "independent": "Here the extractor keeps every word, and the predictor was trained on random words: an independent "
    "reader.",
    "independent predictor": "The predictor was trained on random words, without the extractor, so the two cannot "
    "share a code.",
    "human": "Here people selected the words, and only documents that they marked can be explained.",
}


def card_text(
    name: str, labels: Sequence[str], needs_query: bool, settings: Mapping[str, Any], report: Report | None
) -> str:
    """Write the model card."""
    method = "independent predictor" if settings.get("predictor") == "independent" else settings.get("method")
    table = "Nothing was measured when the model was saved."
    if report is not None:
        table = f"On {report.n_documents} test documents:\n\n{report.to_markdown()}"
    return CARD_TEXT.format(
        name=name,
        method=CARD_METHODS.get(str(method), CARD_METHODS["fresh"]),
        labels=", ".join(f"`{label}`" for label in labels),
        query=" and the query" if needs_query else "",
        each=" Each document comes with a query." if needs_query else "",
        call='"Some text.", query="A question?"' if needs_query else '"Some text."',
        flag=' --query "A question?"' if needs_query else "",
        report=table.strip(),
        settings="\n".join(f"- `{key}`: {value}" for key, value in flatten(settings)) or "Not recorded.",
    )
