"""Networks over words: encoders, tokens, heads."""

from typing import TYPE_CHECKING

from fresh._optional import lazy_exports

if TYPE_CHECKING:
    from fresh.nn.classifier import Classifier
    from fresh.nn.config import NetworkConfig
    from fresh.nn.device import choose_device
    from fresh.nn.encoder import Encoder, load_encoder
    from fresh.nn.token_classifier import TokenClassifier
    from fresh.nn.tokenizer import Text, WordTokenizer

__all__ = [
    "Classifier",
    "Encoder",
    "NetworkConfig",
    "Text",
    "TokenClassifier",
    "WordTokenizer",
    "choose_device",
    "load_encoder",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "classifier": ("Classifier",),
        "config": ("NetworkConfig",),
        "device": ("choose_device",),
        "encoder": ("Encoder", "load_encoder"),
        "token_classifier": ("TokenClassifier",),
        "tokenizer": ("Text", "WordTokenizer"),
    },
)
