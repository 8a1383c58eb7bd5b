"""What tells an encoder from others: its name, or, if it is a folder, what is in it, wherever that is."""

import functools
import hashlib
from pathlib import Path

TOKENIZER = "tokenizer.json"
READ = ("config.json", TOKENIZER, "tokenizer_config.json", "special_tokens_map.json", "1_Pooling/config.json")
"""Files that an encoder is made of, beside its weights; others, such as its description, change nothing."""
VOCABULARY = ("*.txt", "*.model", "vocab.json")
"""Where words are known from if not from the tokenizer's own file."""
Stamp = tuple[str, int, int]


def identity_of(encoder: str) -> str:
    """Tell an encoder from others."""
    folder = Path(encoder)
    if not folder.is_dir():
        return encoder
    words = () if (folder / TOKENIZER).is_file() else VOCABULARY
    files = sorted(path for name in (*READ, "*.safetensors", *words) for path in folder.glob(name) if path.is_file())
    stamps = [(path.relative_to(folder).as_posix(), path.stat()) for path in files]
    return _digest_in(str(folder.resolve()), tuple((name, about.st_size, about.st_mtime_ns) for name, about in stamps))


@functools.lru_cache(maxsize=16)
def _digest_in(folder: str, stamps: tuple[Stamp, ...]) -> str:
    """Digest the files of a folder; those whose size and time stay the same are read once."""
    whole = hashlib.sha256()
    for name, _, _ in stamps:
        with (Path(folder) / name).open("rb") as file:
            whole.update(f"{name}\0{hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return f"folder {whole.hexdigest()[:16]}"
