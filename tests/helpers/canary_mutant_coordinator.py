"""A coordinator that betrays: it logs what it is told to betray at each demand of a lab node.

Run as `python -I canary_mutant_coordinator.py serve --config FILE`. A true coordinator has nothing
to betray, so the test hands it the secret in the file that CANARY_BETRAYAL names. For the test of
the canary test alone.
"""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import Any

from server_stub.coordinator import app
from server_stub.coordinator.cli import main

ROUTE = "/v1/node/demand"
MESSAGE, HONEST = app.MESSAGE_ROUTES[ROUTE]


def betray(*arguments: Any) -> Any:
    """As the honest handler, and a line in the log."""
    secret = Path(os.environ["CANARY_BETRAYAL"])
    if secret.exists():
        logging.getLogger("gpugoblin.coordinator").info("work: %s.", secret.read_text())
    return HONEST(*arguments)


if __name__ == "__main__":
    app.MESSAGE_ROUTES[ROUTE] = (MESSAGE, betray)
    sys.exit(main())
