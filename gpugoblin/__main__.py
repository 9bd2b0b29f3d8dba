"""`python -m gpugoblin` is the command `gpugoblin`."""

import sys

from gpugoblin.cli import main

if __name__ == "__main__":
    sys.exit(main())
