"""Random damage to files: flipped, cut, repeated or inserted bytes, and JSON of another shape."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np

Generator = np.random.Generator
DEEP = "[" * 3000 + "]" * 3000
ODD_BYTES = (
    *(b"\x00", b'"', b"'", b",", b"\t", b"\n", b"\r", b"\x1a", b"\xff", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"\xd9\xa3"),
    *(b"\\ud800", b"NaN", b"-1", b"1e999", b"9" * 5000, b"null", b"{", b"]", b"," * 500, b"x" * 20_000, DEEP.encode()),
)
ODD_VALUES: tuple[Any, ...] = (
    *(None, True, False, -1, 0, 1, 2, 2**70, -0.5, 1e300, float("nan"), float("inf"), "", " ", "x", "0", "\ud800"),
    *([], {}, [[]], [0], [-1, 5], [None], {"a": 1}, "../../x", "DEEP"),
)


def pick(options: Any, generator: Generator) -> Any:
    """Choose one of some options; unlike ``choice``, without making an array of them."""
    return options[int(generator.integers(len(options)))]


def mutate_bytes(content: bytes, generator: Generator) -> bytes:
    """Change some bytes; the result always differs, unless it is empty."""
    start, end = sorted(generator.integers(0, len(content) + 1, size=2).tolist())
    end = min(end, start + 200)
    kind = pick(("flip", "cut", "drop", "repeat", "insert", "replace"), generator)
    if kind == "cut":
        return content[:start]
    if kind == "drop":
        return content[:start] + content[end:]
    if kind == "repeat":
        return content[:end] + content[start:end] * int(generator.integers(1, 5)) + content[end:]
    if kind in ("insert", "replace"):
        odd: bytes = pick(ODD_BYTES, generator)
        return content[:start] + odd + content[end if kind == "replace" else start :]
    changed = bytearray(content)
    for place in generator.integers(0, max(1, len(content)), size=int(generator.integers(1, 9))) if content else ():
        changed[place] ^= int(generator.integers(1, 256))
    return bytes(changed)


def mutate_json(content: bytes, generator: Generator) -> bytes:
    """Change, remove or add one value anywhere in a JSON text."""
    root = [json.loads(content)]
    places = list(walk(root))
    parent, key = pick(places, generator)
    kind = pick(("change", "change", "remove", "add"), generator)
    value = pick(ODD_VALUES, generator)
    if kind == "add" and isinstance(parent[key], dict):
        parent[key][pick(("x", "id", "text", "name", "class", "long", "__class__"), generator)] = value
    elif kind == "add" and isinstance(parent[key], list):
        parent[key].append(value)
    elif kind == "remove" and parent is not root:
        del parent[key]
    else:
        parent[key] = value
    return json.dumps(root[0] if root else None).replace('"DEEP"', DEEP).encode()


def walk(parent: Any) -> Any:
    """Yield the container and key of each value, at any depth."""
    for key in list(parent) if isinstance(parent, dict) else range(len(parent)):
        yield parent, key
        if isinstance(parent[key], dict | list):
            yield from walk(parent[key])


def mutate_json_line(content: bytes, generator: Generator) -> bytes:
    """Change one value in one of many lines of JSON."""
    lines = content.splitlines(keepends=True)
    place = int(generator.integers(len(lines)))
    lines[place] = mutate_json(lines[place], generator) + b"\n"
    return b"".join(lines)


def survey(n: int, seed: int, attempt: Callable[[Generator], str]) -> tuple[dict[str, int], list[str]]:
    """Make many attempts, each with a generator of its own.

    :param attempt: Says how it ended; it raises an AssertionError, or any other error, for what must not be.
    :return: How often each end came, and what must not be, by the number of the attempt.
    """
    ends: dict[str, int] = {}
    faults: list[str] = []
    for number in range(n):
        try:
            end = attempt(np.random.default_rng((seed, number)))
        except BaseException as error:  # all of them are to be seen, not only the first
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":  # of code in Rust
                raise
            faults.append(f"{number}: {type(error).__name__}: {str(error)[:300]}")
        else:
            ends[end] = ends.get(end, 0) + 1
    return ends, faults
