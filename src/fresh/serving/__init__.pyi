from .app import create_app as create_app
from .config import BatchLimits as BatchLimits
from .config import JobLimits as JobLimits
from .config import ServeConfig as ServeConfig
from .models import Models as Models
from .models import load_models as load_models
