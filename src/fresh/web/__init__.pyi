from .errors import Problem as Problem
from .metrics import ServerMetrics as ServerMetrics
from .security import SecurityConfig as SecurityConfig
from .server import Assets as Assets
from .server import PortError as PortError
from .server import bind as bind
from .server import make_app as make_app
from .server import serve as serve
