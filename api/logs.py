"""How the API process logs: a line an event, plain for people or JSON for machines.

No header, body or query parameter's secret is ever given to a logger; URLs of servers, which hold
passwords, are not either.
"""

import json
import logging
from typing import Literal

_PLAIN = "%(asctime)s %(levelname)s %(name)s: %(message)s"

# What every record has; the rest is what its event was given as `extra`.
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: value for name, value in vars(record).items() if name not in _STANDARD}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def log_to_stderr(style: Literal["plain", "json"]) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(JsonFormatter() if style == "json" else logging.Formatter(_PLAIN))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("botocore").setLevel(logging.WARNING)
