"""The clauses that make a query continuous (docs/decisions/0013), as numbers.

EVERY '5 seconds'        an answer, called an epoch, every so often
RANGE '1 minute'         over what arrived within that time; over windows of TUMBLE and HOP: how late a row may be
FOR '10 minutes'         and then no more; until it is cancelled when absent
STRATEGY 'DHT-Hi-Learned'    by another algorithm than the default; 'repeat' asks the whole query anew each time
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from query.aggregation.strategy import DEFAULT_CONTINUOUS, Timing, UnknownStrategy, parse
from query.engine.epochs import EPOCHS_MAX, EVERY_LEAST_S, EVERY_MOST_S
from query.expr import ExprError, literal
from query.plan import Constant
from query.plan_hints import quoted
from ufl.sql.dialect import Continuous
from ufl.sql.errors import Refused
from ufl.sql.scalars import interval_text

#: The strategy that is none: the query as a whole is asked again in every epoch.
REPEAT = "repeat"
#: Rows are kept for no longer than this.
RANGE_MOST_S = 7 * 86_400.0


@dataclass(frozen=True, slots=True)
class Repetition:
    """How a query is repeated."""

    every_s: float
    range_s: float | None = None
    duration_s: float | None = None
    strategy: str = DEFAULT_CONTINUOUS.name
    #: Whether the query as a whole is asked again in each epoch; else its plan gives epochs by itself.
    again: bool = False

    @property
    def epochs(self) -> int | None:
        """How many there are; None for no end."""
        if self.duration_s is None:
            return None
        return max(1, min(EPOCHS_MAX, int(self.duration_s / self.every_s + 1e-9)))


def repetition_of(node: Continuous) -> Repetition:
    """The clauses behind a query."""
    every, range_, duration = (node.args.get(name) for name in ("every", "range", "duration"))
    if every is None:
        given = next(each for each in (range_, duration, node.args.get("strategy")) if each is not None)
        raise Refused("RANGE, FOR and STRATEGY need EVERY", given, "for example EVERY '5 seconds'")
    every_s = seconds_of(every, "EVERY")
    if not EVERY_LEAST_S <= every_s <= EVERY_MOST_S:
        raise Refused(f"EVERY is between {EVERY_LEAST_S:g} and {EVERY_MOST_S:g} seconds", every)
    range_s = None if range_ is None else seconds_of(range_, "RANGE")
    if range_s is not None and range_s > RANGE_MOST_S:
        raise Refused(f"RANGE is at most {RANGE_MOST_S:g} seconds", range_)
    duration_s = None if duration is None else seconds_of(duration, "FOR")
    if duration_s is not None and duration_s < every_s:
        raise Refused("FOR is shorter than EVERY: there would be no answer", duration)
    strategy = _strategy(node.args.get("strategy"))
    return Repetition(every_s, range_s, duration_s, strategy, strategy == REPEAT)


def _strategy(node: exp.Expr | None) -> str:
    if node is None:
        return DEFAULT_CONTINUOUS.name
    if node.name.lower() == REPEAT:
        return REPEAT
    try:
        strategy = parse(node.name)
    except UnknownStrategy as error:
        raise Refused(str(error), node, f"or '{REPEAT}', which asks the whole query anew") from None
    if strategy.timing is Timing.OPTIMAL and not strategy.by_dissemination:
        hint = "DHT-Hi-Optimal knows whom it waits for; in UFL, put Epochs has the setting nodes"
        raise Refused(f"{strategy.name} would have to know the number of nodes", node, hint)
    return strategy.name


def seconds_of(node: exp.Expr, what: str) -> float:
    """The length of a constant interval, or of a text that is one."""
    text = interval_text(node) if isinstance(node, exp.Interval) else node.name
    try:
        value = None if text is None else literal(Constant(text, "interval")).as_py()
    except ExprError:
        raise Refused(f"{what}: {quoted(text or '')} is no length of time", node, "as '5 seconds'") from None
    if value is None or value.months:
        raise Refused(f"{what} takes a length in weeks, days, hours, minutes or seconds", node)
    length_s = float(value.days * 86_400 + value.nanoseconds / 1e9)
    if length_s <= 0.0:
        raise Refused(f"{what} is longer than nothing", node)
    return length_s
