from . import app as app
from .app import StudyServeConfig as StudyServeConfig
from .app import create_app as create_app
