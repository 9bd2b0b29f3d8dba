"""The log of a server: lines for people, or one JSON object a line for programs.

Owns: the two forms. A line says when, how grave, from which part, the words, and an error's code.
Must not: hold what was not said to the log on purpose: no argument, no local variable, no number of
a computation.
"""

from __future__ import annotations

import json
import logging
import time
from typing import Final

from gpugoblin.errors import GoblinError

__all__ = ["FORMATS", "JsonFormatter", "configure"]

FORMATS: Final = ("text", "json")


class JsonFormatter(logging.Formatter):
    """`{"time", "level", "logger", "message"}`, with `code` of an error of ours and `trace` of any
    other."""

    def format(self, record: logging.LogRecord) -> str:
        seconds, fraction = divmod(record.created, 1)
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
        line: dict[str, str] = {
            "time": f"{moment}.{int(fraction * 1000):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        said = record.args if isinstance(record.args, tuple) else ()
        raised = record.exc_info[1] if record.exc_info else None
        for each in (*said, raised):
            if isinstance(each, GoblinError):
                line["code"] = each.code
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def configure(form: str) -> None:
    """Sends the log of this process to standard error in `form`, one of `FORMATS`."""
    handler = logging.StreamHandler()
    if form == "json":
        handler.setFormatter(JsonFormatter())
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
