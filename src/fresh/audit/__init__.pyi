from .checks import Audit as Audit
from .checks import audit as audit
from .degenerate import find_degenerate as find_degenerate
from .duplicates import find_duplicates as find_duplicates
from .leakage import find_leaks as find_leaks
from .leakage import find_length_leak as find_length_leak
from .replay import replay_saved as replay_saved
