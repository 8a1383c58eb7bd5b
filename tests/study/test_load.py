import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import study_load
from fresh.study.overview import read_answers
from fresh.study.store import create_study, open_study
from studies import plan, two_ways
from study_load import load


def test_thirty_people_lose_and_double_nothing(database: str) -> None:
    create_study(database, plan(two_ways(), n=50, sample=40, practice=1, checks=2, per_item=3)).close()
    found = load(database, 30)
    assert found.acknowledged == 40 * 2 * 3
    assert (found.lost, found.doubled, found.beyond, found.twice_seen) == (0, 0, 0, 0)


def test_acknowledged_answers_survive_a_kill(database: str) -> None:
    create_study(database, plan(two_ways(), n=200, sample=150, practice=0, checks=0, per_item=3)).close()
    script = Path(study_load.__file__)
    victim = subprocess.Popen([sys.executable, str(script), database], stdout=subprocess.PIPE, text=True)
    assert victim.stdout is not None
    told = [tuple(map(int, victim.stdout.readline().split())) for _ in range(60)]
    os.kill(victim.pid, signal.SIGKILL)
    told += [tuple(map(int, line.split())) for line in victim.stdout.read().splitlines() if line.count(" ") == 1]
    victim.stdout.close()
    assert victim.wait() == -signal.SIGKILL
    store = open_study(database)
    saved = {(record["annotator"], record["item"]) for record in read_answers(store)}
    store.close()
    assert len(told) >= 60
    assert set(told) <= saved
    assert len(saved) <= len(told) + 1  # one may have been saved and not yet told
    if "://" not in database:
        with sqlite3.connect(Path(database) / "study.db") as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        connection.close()
