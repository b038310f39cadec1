"""What a command says when a job fails: one line, out of what Spark, Java and Python wrap around it."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark_pier.errors import PierSparkError

#: Longer lines are cut: some of Spark's carry a whole plan.
LINE_CHARS_MAX = 500
_OURS = ("PierSparkError: ", "OptionError: ")
_FRAME = re.compile(r"\s+at |\s+\.\.\. \d+ more|\s+Suppressed: ")
_CALLED = re.compile(r"An error occurred while calling \S+$")
_CLASS_NAME = re.compile(r"^:?\s*(?:[\w$]+\.)+[\w$]+: ")
_CODE = re.compile(r"^\[[A-Z_.0-9]+\] ")
_STATE = re.compile(r"\s*SQLSTATE: \w+")


def told(error: BaseException) -> str:
    """Our own words if they are in it, else those of the first cause."""
    lines = str(error).splitlines()
    for line in reversed(lines):
        for name in _OURS:
            if name in line:
                return line.split(name, 1)[1]
    if isinstance(error, PierSparkError):
        return str(error)
    return _first_cause(lines)[:LINE_CHARS_MAX] or type(error).__name__


def _first_cause(lines: list[str]) -> str:
    said = [line for line in lines if line.strip() and not _FRAME.match(line) and not _CALLED.match(line)]
    causes = [line.removeprefix("Caused by: ") for line in said if line.startswith("Caused by: ")]
    line = causes[-1] if causes else said[0] if said else ""
    while (bare := _STATE.sub("", _CODE.sub("", _CLASS_NAME.sub("", line)))) != line:
        line = bare
    return line.strip().rstrip(";")


@contextmanager
def muted() -> Iterator[None]:
    """Processes started meanwhile, and those they start later, say nothing on stderr: Java, Spark's log and its Python
    workers write there, whatever the level of the log. If it fails, the last line of that is in the error."""
    with tempfile.TemporaryFile() as said:
        kept = os.dup(2)
        os.dup2(said.fileno(), 2)
        try:
            yield
        except PierSparkError:
            raise
        except Exception as error:
            said.seek(0)
            lines = said.read().decode(errors="replace").splitlines()
            raise PierSparkError(
                f"Spark does not start: {_first_cause(lines[-1:]) or told(error)}"
            ) from error
        finally:
            os.dup2(kept, 2)
            os.close(kept)
