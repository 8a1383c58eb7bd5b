from .classifier import Classifier as Classifier
from .config import NetworkConfig as NetworkConfig
from .device import choose_device as choose_device
from .encoder import Encoder as Encoder
from .encoder import load_encoder as load_encoder
from .token_classifier import TokenClassifier as TokenClassifier
from .tokenizer import Text as Text
from .tokenizer import WordTokenizer as WordTokenizer
