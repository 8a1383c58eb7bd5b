"""What tests of recipe resume share with others."""

from fresh.progress import _Silent


class Saying(_Silent):
    """Keeps what is said."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)
