"""`python -I -m server_stub.coordinator serve --config FILE`."""

from __future__ import annotations

import sys

from server_stub.coordinator.cli import main

if __name__ == "__main__":
    sys.exit(main())
