import json
import logging
import sys

from api.logs import JsonFormatter


def test_a_line_is_json_with_its_event_s_ids() -> None:
    record = logging.makeLogRecord({"name": "api", "msg": "job %s", "args": ("taken",), "job": 7})

    line = json.loads(JsonFormatter().format(record))

    assert (line["message"], line["logger"], line["job"]) == ("job taken", "api", 7)


def test_a_traceback_stays_on_its_line() -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError:
        record = logging.makeLogRecord({"msg": "failed", "exc_info": sys.exc_info()})

    line = JsonFormatter().format(record)

    assert "\n" not in line
    assert "ValueError: two\nlines" in json.loads(line)["traceback"]
