from .config import ClassifierConfig as ClassifierConfig
from .config import EngineConfig as EngineConfig
from .config import TrainConfig as TrainConfig
from .feature_cache import FeatureStore as FeatureStore
from .fit import TrainingPairs as TrainingPairs
from .fit import train_classifiers as train_classifiers
from .loop import RunContext as RunContext
from .loop import TrainingJob as TrainingJob
