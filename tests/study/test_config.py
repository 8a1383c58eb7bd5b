import subprocess
import sys
from pathlib import Path

import pytest

from fresh.errors import ConfigError
from fresh.study.config import Condition, StudyConfig, StudyTexts, read_study

WHOLE = """
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


def write(folder: Path, text: str) -> Path:
    path = folder / "study.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_study_is_read(tmp_path: Path) -> None:
    found = read_study(write(tmp_path, WHOLE))
    assert found.config == StudyConfig(
        "movies", str(tmp_path / "corpora"), sample=50, texts=StudyTexts(consent="Do you agree?")
    )
    assert found.conditions == (
        Condition("human", "human"),
        Condition("FRESH, top k", "model", model=str(tmp_path / "runs/fresh")),
        Condition("random", "random_non_contiguous", like="FRESH, top k"),
    )
    assert found.labels == {"NEG": "Negative", "POS": "Good"}
    assert found.question == "Is this film review positive or negative?"


def test_a_file_is_looked_for_beside_the_study(tmp_path: Path) -> None:
    found = read_study(write(tmp_path, 'corpus = "mine.csv"\ntext = "review"\n[conditions.all]\nkind = "full_text"\n'))
    assert (found.config.corpus, found.config.data.text) == (str(tmp_path / "mine.csv"), "review")
    assert found.question == "Which label fits this text?"


def test_labels_stand_as_the_file_has_them_and_the_usual_ones_behind(tmp_path: Path) -> None:
    found = read_study(write(tmp_path, WHOLE))
    assert list(found.labels.items()) == [("POS", "Good"), ("NEG", "Negative")]


def test_the_defaults_are_the_papers() -> None:
    config = StudyConfig("file.csv")
    assert (config.sample, config.per_item, config.casing) == (100, 3, "lower")


def test_all_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        """
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
y = "Same"
z = "Same"
""",
    )
    with pytest.raises(ConfigError) as caught:
        read_study(path)
    kinds = "'human' or 'full_text' or 'model' or 'random_contiguous' or 'random_non_contiguous'"
    assert str(caught.value).replace(f"In {path}: ", "").splitlines() == [
        "sampel is not a setting. Did you mean sample?",
        "per_item must be at least 1, got 0.",
        "hours must be in (0, 1,000,000], got 0.0.",
        "movies is a corpus of the paper. Set data_dir to the folder that holds its files.",
        f"conditions.a: kind must be {kinds}, got 'humann'.",
        "conditions.b: model has no effect on a condition of kind human. Leave it out.",
        "conditions.c: A condition of kind model needs model.",
        "conditions.d: bb is not a condition. Did you mean b?",
        "conditions.e: like must name a condition of kind model or human, but f is of kind full_text.",
        "labels.x must be text, got 3. Write it in quotation marks.",
        "labels: 'Same' and 'Same' look alike. Give each label a different text.",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("sample = 3", "corpus must name a corpus (sst, agnews, evinf, movies, multirc) or a file, got ''."),
        (
            'corpus = "moveis"\ndata_dir = "x"',
            "moveis is not a corpus. Did you mean movies? For your own file, leave data_dir out.",
        ),
        ('corpus = "a.csv"\nconditions = 3', "conditions must be a table, got 3."),
        ('corpus = "a.csv"\n[conditions]\na = 1', "conditions.a must be a table, got 1. Write [conditions.a]."),
        ('corpus = "a.csv"', "There are no conditions. Add a table for each, such as [conditions.human]."),
        ('corpus = "a.csv"\nsample = 9999999', "sample must be at most 1,000,000, got 9999999."),
        ('corpus = "a.csv"\nper_item = 1001', "per_item must be at most 1,000, got 1001."),
        ('corpus = "a.csv"\nchecks = 1001', "checks must be at most 1,000, got 1001."),
        ('corpus = "a.csv"\nannotators = 10001', "annotators must be at most 10,000, got 10001."),
        ('corpus = "a.csv"\nsample = 2\nchecks = 3', "checks must be at most sample (2), got 3."),
        (
            'corpus = "movies"\ndata_dir = "x"\ntext = "review"\n[data]\nskip_bad = true',
            "text, skip_bad has no effect on movies, which has its own format. Leave [data] out.",
        ),
        (
            'corpus = "imdb"\ndata_dir = "x"',
            "imdb is not a corpus. There are: sst, agnews, evinf, movies, multirc. "
            "For your own file, leave data_dir out.",
        ),
        (
            'corpus = "a.csv"\nsample = "4"',
            "sample must be a whole number, got the text '4'. Write it without quotation marks.",
        ),
        (
            'corpus = "a.csv"\nhours = "4.5"',
            "hours must be a number, got the text '4.5'. Write it without quotation marks.",
        ),
        (
            'corpus = "a.csv"\n[data]\ntokenised = "true"',
            "data.tokenised must be true or false, got the text 'true'. Write it without quotation marks.",
        ),
        (
            'corpus = "a.csv"\nsample = 4.0',
            "sample must be a whole number, got 4.0. Write it without a decimal point.",
        ),
        ('corpus = "a.csv"\nsample = true', "sample must be a whole number, got True."),
        ('corpus = "a.csv"\ntitle = " "', "title must contain visible text, got ' '."),
        (
            'corpus = "a.csv"\ntitle = "A\\nB"',
            "title must be on one line, got 'A\\nB'. Remove the line breaks.",
        ),
        (
            'corpus = "a.csv"\ntitle = "A\\u2066B"',
            "title must not contain characters that change the text direction, got 'A\\u2066B'. Remove them.",
        ),
        *(
            (
                f'corpus = "a.csv"\n[texts]\n{name} = "\\n "',
                f"texts.{name} must contain visible text. Write some, or leave it out.",
            )
            for name in ("consent", "instructions", "question", "thanks")
        ),
        (
            'corpus = "a.csv"\n[conditions.""]\nkind = "human"',
            "A condition's name must contain visible text, got ''.",
        ),
        (
            'corpus = "a.csv"\n[conditions."a\\u202eb"]\nkind = "human"',
            "A condition's name must not contain characters that change the text direction, got 'a\\u202eb'. "
            "Remove them.",
        ),
        (
            'corpus = "a.csv"\n[conditions."a b"]\nkind = "human"\n[conditions." A  b"]\nkind = "human"',
            "conditions: 'a b' and ' A  b' look alike. Give each a different name.",
        ),
        ('corpus = "a.csv"\n[labels]\nx = " "', "labels.x must contain visible text, got ' '."),
        (
            'corpus = "a.csv"\n[labels]\nx = "Up\\rDown"',
            "labels.x must be on one line, got 'Up\\rDown'. Remove the line breaks.",
        ),
        (
            'corpus = "a.csv"\n[labels]\nx = "Good"\ny = "\\u200bGOOD "',
            "labels: 'Good' and '\\u200bGOOD ' look alike. Give each label a different text.",
        ),
    ],
)
def test_what_cannot_be_a_study_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        read_study(path)
    assert f"In {path}: {problem}" in str(caught.value).splitlines()


def test_a_study_runs_without_models() -> None:
    modules = "fresh.study.overview, fresh.study.importing, fresh.study.results"
    command = f"import sys, {modules}; print('torch' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"
