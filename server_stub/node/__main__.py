"""`python -I -m server_stub.node serve --config FILE`."""

from __future__ import annotations

import sys

from server_stub.node.commands import main

__all__: list[str] = []

if __name__ == "__main__":
    sys.exit(main())
