"""What a node says on stderr: one line an event, as text for people or JSON for collectors.

Everything goes through the standard library's logging, so that the layers below, which only have a logger,
end up in the same stream. Details are fields, not prose: `client gone peer=127.0.0.1:5 reason=...`.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import TextIO

from pier_node.config.knobs import LogSection

#: One line of a log; a traceback may be longer than this only by being cut.
LINE_CHARS_MAX = 8_000


class _Formatter(logging.Formatter):
    def __init__(self, node: str) -> None:
        super().__init__()
        self.node = node

    def fields(self, record: logging.LogRecord) -> dict[str, object]:
        details: dict[str, object] = dict(getattr(record, "details", {}))
        if record.exc_info:
            details["error"] = self.formatException(record.exc_info)[-LINE_CHARS_MAX:]
        return details


class TextFormatter(_Formatter):
    def format(self, record: logging.LogRecord) -> str:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        details = self.fields(record)
        error = details.pop("error", None)
        words = "".join(f" {name}={value}" for name, value in details.items())
        line = f"{stamp}.{int(record.msecs):03}Z {record.levelname.lower():7} {record.getMessage()}{words}"
        return line[:LINE_CHARS_MAX] + (f"\n{error}" if error else "")


class JsonFormatter(_Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "ts": round(record.created, 3),
            "level": record.levelname.lower(),
            "node": self.node,
            "event": record.getMessage()[:LINE_CHARS_MAX],
            "from": record.name,
            **self.fields(record),
        }
        return json.dumps(line, default=str)


class Journal:
    """A node's own lines; also the `SessionJournal` of its clients."""

    def __init__(self, section: LogSection, node: str, out: TextIO | None = None) -> None:
        handler = logging.StreamHandler(out or sys.stderr)
        handler.setFormatter((JsonFormatter if section.format == "json" else TextFormatter)(node))
        root = logging.getLogger()
        root.handlers[:] = [handler]
        root.setLevel(section.level.upper())
        self._log = logging.getLogger("pier")

    def info(self, event: str, **details: object) -> None:
        self._log.info(event, extra={"details": details})

    def warning(self, event: str, **details: object) -> None:
        self._log.warning(event, extra={"details": details})

    def client_event(self, event: str, peer: str, **details: object) -> None:
        self._log.debug(event, extra={"details": {"peer": peer, **details}})

    def service_error(self, what: str, error: Exception) -> None:
        self._log.error(
            "a request failed inside the node",
            extra={"details": {"request": what}},
            exc_info=(type(error), error, error.__traceback__),
        )
