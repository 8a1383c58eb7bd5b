"""Commands run in this process, as a user types them."""

from typing import NamedTuple, Protocol

import pytest

from fresh.cli.main import main

ON_CPU = ("audit", "compare", "evaluate", "explain", "export", "verify")


class Shown(NamedTuple):
    """What a command printed."""

    out: str
    err: str

    @property
    def last(self) -> str:
        """The last line on standard error, after progress bars."""
        return (self.err.splitlines() or [""])[-1]


class Command(Protocol):
    def __call__(self, *arguments: object, status: int = 0) -> Shown: ...


def make_command(capsys: pytest.CaptureFixture[str]) -> Command:
    def run(*arguments: object, status: int = 0) -> Shown:
        given = [*map(str, arguments), *(("--device", "cpu") if arguments[0] in ON_CPU else ())]
        capsys.readouterr()
        assert main(given) == status
        return Shown(*capsys.readouterr())

    return run
