"""Damaged and forged model folders say the same as before, or are refused without a traceback."""

import hashlib
import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

import small
from fresh.attribution.support_model import SupportModel
from fresh.cli.main import main
from fresh.persistence import _manifest_digest, read_files, remove_folder, write_files
from fresh.predictor import Predictor
from fresh.rationalizer import Rationalizer
from fresh.selection.discretizers import TopK
from mutations import Generator, mutate_bytes, mutate_json, pick, survey

N = 250
"""Mutations of each of eight batches: 1,000 by accident and 1,000 by somebody who computes the digests anew."""
SECONDS = 10
TEXTS = [{"text": "the film was good"}, {"text": "An awful story of two old men, and the sea!"}]
MANIFEST = "config.json"

Files = dict[str, bytes]


@pytest.fixture(scope="module")
def files(support: SupportModel, predictor: Predictor, tmp_path_factory: pytest.TempPathFactory) -> Files:
    """All files of a model."""
    folder = tmp_path_factory.mktemp("saved") / "model"
    small.rationalizer(support, predictor, TopK(0.2)).save_pretrained(folder)
    return read_files(folder)


def mutate_folder(files: Files, generator: Generator) -> Files:
    """Damage a file, take one away, add one, or put one in the place of another."""
    names = [*sorted(files), *[MANIFEST] * 4]
    changed, (name, other) = dict(files), (pick(names, generator) for _ in range(2))
    kind = pick(("bytes", "bytes", "fields", "fields", "remove", "swap", "add"), generator)
    if kind == "remove":
        del changed[name]
    elif kind == "swap":
        changed[name], changed[other] = files[other], files[name]
    elif kind == "add":
        changed[pick(("", "extractor/", "predictor/"), generator) + Path(other).name] = files[name]
    elif kind == "fields" and name.endswith(".json"):
        changed[name] = mutate_json(files[name], generator)
    elif kind == "fields" and name.endswith(".safetensors"):
        changed[name] = mutate_header(files[name], generator)
    else:
        changed[name] = mutate_bytes(files[name], generator)
    return changed


def mutate_header(content: bytes, generator: Generator) -> bytes:
    """Change a name, type, shape or place of a tensor in a safetensors file."""
    size = int.from_bytes(content[:8], "little")
    header = mutate_json(content[8 : 8 + size], generator)
    return len(header).to_bytes(8, "little") + header + content[8 + size :]


def forge(files: Files) -> Files:
    """Compute all digests of a folder anew, where its manifest still can be read."""
    try:
        manifest = json.loads(files[MANIFEST])
        names = [name for name in files if name.startswith(("extractor/", "predictor/"))]
        manifest["files"] = {name: hashlib.sha256(files[name]).hexdigest() for name in names}
        manifest["sha256"] = _manifest_digest(manifest)
    except (KeyError, ValueError, TypeError, RecursionError):
        return files
    return {**files, MANIFEST: json.dumps(manifest).encode()}


@contextmanager
def within(seconds: int) -> Iterator[None]:
    """Fail where something takes too long, also where it would never end."""

    def fail(_number: int, _frame: FrameType | None) -> None:
        raise AssertionError(f"not done after {seconds} s")

    handler, (left, _) = signal.signal(signal.SIGALRM, fail), signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, left)  # pytest's own, for the whole test
        signal.signal(signal.SIGALRM, handler)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")  # of a card or a manifest that cannot be checked
@pytest.mark.parametrize("forged", [False, True], ids=["damaged", "forged"])
@pytest.mark.parametrize("batch", range(4))
def test_mutated_models_say_the_same_or_are_refused(
    batch: int, forged: bool, files: Files, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, texts, output = tmp_path / "model", small.write_jsonl(tmp_path / "texts.jsonl", TEXTS), tmp_path / "out"
    command = ["explain", str(folder), "--input", str(texts), "--output", str(output), "--scores", "--device", "cpu"]

    def explain(content: Files) -> str:
        remove_folder(folder)
        output.unlink(missing_ok=True)
        write_files(content, folder)
        refusal: ValueError | None = None
        try:
            Rationalizer.from_pretrained(folder, device="cpu")
        except ValueError as error:
            refusal = error
        assert refusal is None or type(refusal).__module__.startswith("fresh."), repr(refusal)
        status, told = main(command), capsys.readouterr().err
        assert status == (refusal is not None), told
        assert refusal is None or str(refusal) in told, told
        return "refused" if refusal else output.read_text(encoding="utf-8")

    expected = explain(files)

    def attempt(generator: Generator) -> str:
        content = mutate_folder(files, generator)
        with within(SECONDS):
            said = explain(forge(content) if forged else content)
        assert forged or said in (expected, "refused"), "a silent change"
        return "same" if said == expected else "refused" if said == "refused" else "other"

    ends, faults = survey(N, 10 * batch + forged, attempt)
    assert faults == []
    assert ends["refused"] > ends["same"] > 0
