"""TUMBLE and HOP in FROM: a table with the windows of time in which its rows lie (docs/decisions/0013).

    TUMBLE(fw, ts, '1 minute')                windows of a minute, one after the other
    HOP(fw, ts, '10 seconds', '1 minute')     windows of a minute, a new one every ten seconds: a row is in six

The table has two more columns, window_start and window_end. `TABLE fw` and `DESCRIPTOR(ts)` may be written as the
standard has it. Windows begin at whole multiples of their step since 1970.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from query.plan import Constant, Expression, Field, Function
from query.plan_hints import quoted
from ufl.sql.continuous import seconds_of
from ufl.sql.errors import Refused
from ufl.sql.kinds import kind_of
from ufl.sql.names import Computed
from ufl.sql.relations import Column, Repeated, Scan

#: Windows that one row may be in.
WINDOWS_MAX = 1_000
STEP_LEAST_S = 0.001
START, END = "window_start", "window_end"
#: Numbers the copies of a row, one for each of its windows.
_COPY = "window#"
_ORIGIN = Constant("1970-01-01 00:00:00", "timestamp")


@dataclass(frozen=True, slots=True)
class Window:
    """What was written: the table, its column of times, how often a window begins and how long it is."""

    table: str
    time: str
    step_s: float
    size_s: float

    @property
    def copies(self) -> int:
        """How many windows a row is in."""
        return round(self.size_s / self.step_s)


def window_of(node: exp.Anonymous) -> Window:
    """The call of a window function as the parser gives it: table, column, and one length or two."""
    name, (table, time, *lengths) = node.name.upper(), node.expressions
    if len(lengths) != (1 if name == "TUMBLE" else 2):
        example = (
            "TUMBLE(fw, ts, '1 minute')" if name == "TUMBLE" else "HOP(fw, ts, '10 seconds', '1 minute')"
        )
        raise Refused(f"{name} takes a table, a column of times and a length", node, f"for example {example}")
    seconds = [seconds_of(each, name) for each in lengths]
    window = Window(table.name, time.name, seconds[0], seconds[-1])
    if window.step_s < STEP_LEAST_S:
        raise Refused(f"a window is at least {STEP_LEAST_S:g} s long", lengths[0])
    if window.size_s < window.step_s or abs(window.copies * window.step_s - window.size_s) > 1e-9:
        raise Refused("the length of a HOP window is a multiple of its step", lengths[-1])
    if window.copies > WINDOWS_MAX:
        raise Refused(f"a row would be in more than {WINDOWS_MAX} windows (WINDOWS_MAX)", lengths[-1])
    return window


def windowed(scan: Scan, window: Window) -> Scan | Repeated:
    """The table's rows, once for each window."""
    return scan if window.copies == 1 else Repeated(scan, window.copies, _COPY)


def columns(
    window: Window, known: Mapping[str, pa.DataType | None] | None, node: exp.Expr
) -> dict[str, Computed]:
    """window_start and window_end, computed from the column of times."""
    time = window.time
    if known is not None and time not in known:
        match = next((each for each in known if each.lower() == time.lower()), None)
        if match is None:
            raise Refused(f"no column {quoted(time)} in {window.table}", node, ", ".join(known))
        time = match
    kind = None if known is None else known[time]
    step = Constant(_text(window.step_s), "interval")
    bucket: Expression = Function("time_bucket", (step, Field(time), _ORIGIN))
    if window.copies > 1:
        steps = Function("multiply", (Field(_COPY), Constant(str(round(window.step_s * 1e3)), "long")))
        bucket = Function("subtract", (bucket, Function("to_milliseconds", (steps,))))
    end = Function("add", (bucket, Constant(_text(window.size_s), "interval")))
    shape = [Column(time, time, kind), Column(_COPY, _COPY, pa.int64())]
    return {
        START: Computed(bucket, kind_of(bucket, shape, node)),
        END: Computed(end, kind_of(end, shape, node)),
    }


def _text(length_s: float) -> str:
    return f"{round(length_s * 1e3)} milliseconds"
