"""`python -m fresh`: the command, for launchers that start modules."""

import sys

from fresh.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
