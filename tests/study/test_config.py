import subprocess
import sys
from pathlib import Path

import pytest

from elsewhere import write
from fresh.errors import ConfigError
from fresh.study.config import Condition, StudyConfig, StudyTexts, read_study

MOVIES = """
corpus = "movies"
data_dir = "corpora"
sample = 50
consent = "Do you agree?"

[conditions.human]
kind = "human"
[conditions."FRESH, top k"]
model = "runs/fresh"
[conditions.random]
kind = "random_non_contiguous"
like = "FRESH, top k"

[labels]
POS = "Good"
"""
FILE = 'corpus = "a.csv"\n'


def problems(folder: Path, text: str) -> list[str]:
    path = write(folder / "study.toml", text)
    with pytest.raises(ConfigError) as caught:
        read_study(path)
    return str(caught.value).replace(f"In {path}: ", "").splitlines()


def test_read_study_on_a_corpus(tmp_path: Path) -> None:
    found = read_study(write(tmp_path / "study.toml", MOVIES))
    assert found.config == StudyConfig(
        "movies", str(tmp_path / "corpora"), sample=50, texts=StudyTexts(consent="Do you agree?")
    )
    assert found.conditions == (
        Condition("human", "human"),
        Condition("FRESH, top k", "model", model=str(tmp_path / "runs/fresh")),
        Condition("random", "random_non_contiguous", like="FRESH, top k"),
    )
    assert list(found.labels.items()) == [("POS", "Good"), ("NEG", "Negative")]  # those of the file come first
    assert found.question == "Is this film review positive or negative?"


def test_read_study_on_a_file(tmp_path: Path) -> None:
    text = 'corpus = "mine.csv"\ntext = "review"\n[conditions.all]\nkind = "full_text"\n'
    found = read_study(write(tmp_path / "study.toml", text))
    assert (found.config.corpus, found.config.data.text) == (str(tmp_path / "mine.csv"), "review")
    assert found.question == "Which label fits this text?"
    assert (found.config.sample, found.config.per_item, found.config.casing) == (100, 3, "lower")  # as in the paper


def test_all_problems_are_reported_at_once(tmp_path: Path) -> None:
    text = """
corpus = "movies"
sampel = 5
per_item = 0
hours = 0
[conditions.a]
kind = "humann"
[conditions.b]
kind = "human"
model = "m"
[conditions.c]
kind = "model"
[conditions.d]
kind = "random_contiguous"
like = "bb"
[conditions.e]
kind = "random_contiguous"
like = "f"
[conditions.f]
kind = "full_text"
[labels]
x = 3
"""
    kinds = "'human' or 'full_text' or 'model' or 'random_contiguous' or 'random_non_contiguous'"
    assert problems(tmp_path, text) == [
        "sampel is not a setting. Did you mean sample?",
        "per_item must be from 1 to 1,000, got 0.",
        "hours must be in (0, 1,000,000], got 0.0.",
        "movies is a corpus of the paper. Set data_dir to the folder that holds its files.",
        f"conditions.a: kind must be {kinds}, got 'humann'.",
        "conditions.b: model has no effect on a condition of kind human. Leave it out.",
        "conditions.c: A condition of kind model needs model.",
        "conditions.d: bb is not a condition. Did you mean b?",
        "conditions.e: like must name a condition of kind model or human, but f is of kind full_text.",
        "labels.x must be text, got 3. Write it in quotation marks.",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("sample = 3", "corpus must name a corpus (sst, agnews, evinf, movies, multirc) or a file, got ''."),
        (
            'corpus = "moveis"\ndata_dir = "x"',
            "moveis is not a corpus. Did you mean movies? For your own file, leave data_dir out.",
        ),
        (
            'corpus = "movies"\ndata_dir = "x"\ntext = "review"\n[data]\nskip_bad = true',
            "text, skip_bad has no effect on movies, which has its own format. Leave [data] out.",
        ),
        (f"{FILE}conditions = 3", "conditions must be a table, got 3."),
        (f"{FILE}[conditions]\na = 1", "conditions.a must be a table, got 1. Write [conditions.a]."),
        (FILE, "There are no conditions. Add a table for each, such as [conditions.human]."),
        (f"{FILE}sample = 9999999", "sample must be from 1 to 1,000,000, got 9999999."),
        (f"{FILE}checks = 1001", "checks must be from 0 to 1,000, got 1001."),
        (f"{FILE}sample = true", "sample must be a whole number, got True."),
        (f'{FILE}title = " "', "title must contain visible text, got ' '."),
        (f'{FILE}title = "A\\nB"', "title must be on one line, got 'A\\nB'. Remove the line breaks."),
        (
            f'{FILE}title = "A\\u2066B"',
            "title must not contain characters that change the text direction, got 'A\\u2066B'. Remove them.",
        ),
        *(
            (f'{FILE}[texts]\n{name} = "\\n "', f"texts.{name} must contain visible text. Write some, or leave it out.")
            for name in ("consent", "instructions", "question", "thanks")
        ),
        (
            f'{FILE}[conditions.""]\nkind = "human"',
            "conditions.: A condition's name must contain visible text, got ''.",
        ),
        (
            f'{FILE}[conditions."a b"]\nkind = "human"\n[conditions." A  b"]\nkind = "human"',
            "conditions: 'a b' and ' A  b' look alike. Give each a different name.",
        ),
    ],
)
def test_wrong_study_files_are_refused(tmp_path: Path, text: str, problem: str) -> None:
    assert problem in problems(tmp_path, text)


def test_studies_without_models_do_not_import_torch() -> None:
    modules = "fresh.study.overview, fresh.study.importing, fresh.study.results"
    command = f"import sys, {modules}; print('torch' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"
