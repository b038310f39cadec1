"""Continuous queries as opgraphs: what each node does in an epoch, and what the asker makes of all of it.

A query over one table is computed epoch by epoch. At each node:

    aggregates, no RANGE   the table as it is at the start of the epoch, grouped          put Epochs
    aggregates, RANGE      what arrived within RANGE: a cache that follows a source,      put Epochs
                           rows of a published table by their age
    plain rows             what arrived since the epoch before, or within RANGE           put EpochRows
    TUMBLE and HOP         windows that are over by the node's own clock (cache Windows)  put Epochs

At the asker every epoch is a set of its own, so HAVING, ORDER BY, LIMIT and DISTINCT work on it as on any rows. Any
other query is asked again as a whole in every epoch, by the node that was asked (`Repetition.again`).
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from query.plan import Field, Setting, fields_of
from ufl.sql.continuous import REPEAT, Repetition
from ufl.sql.errors import Refused
from ufl.sql.fragments import ASKER, Fragment
from ufl.sql.groups import settings_of
from ufl.sql.lowering import Lowering, Window
from ufl.sql.relations import (
    Aggregate,
    Call,
    Distinct,
    Filter,
    Ordered,
    Project,
    Ready,
    Relation,
    Repeated,
    Scan,
    sources_of,
)

#: How long late rows revise a window, in lengths of it, unless RANGE says.
LATENESS_WINDOWS = 1.0
_TIMES = ("now", "today", "current_timestamp", "current_date", "current_time", "get_current_timestamp")
_PLAIN = (Project, Filter, Repeated, Scan)
_ABOVE = (Project, Filter, Ordered, Distinct)


def lower_epochs(
    lowering: Lowering, relation: Relation, repetition: Repetition, node: exp.Expr
) -> Repetition:
    """Lowers a query that is repeated; what is returned says whether it must be asked again as a whole."""
    chain = _chain(relation)
    if repetition.strategy == REPEAT or chain is None or (_asks_time(node) and repetition.range_s is None):
        if repetition.range_s is not None:
            message = "RANGE needs a query over one table, computed epoch by epoch"
            raise Refused(message, node.args["range"], "without RANGE each answer is over all rows there are")
        lowering.builder.note(f"EVERY {repetition.every_s:g} s: the whole query is asked again in each epoch")
        lowering.root(relation)
        return replace(repetition, again=True)
    lowering.aims = False
    at = _core(chain)
    core = chain[at]
    parent = chain[at - 1] if at else None
    if isinstance(core, Aggregate):
        fragment = _groups(lowering, core, chain[-1], repetition, node)
    else:
        fragment = _rows(lowering, core, chain[-1], parent, repetition)
    if parent is not None:
        assert isinstance(parent, Project | Filter | Ordered | Distinct)
        parent.source = Ready(core.columns, fragment, not core.open)
        fragment = lowering.lower(relation, relation.names)
    lowering.builder.add(fragment, "answer", "result", "Epochs", table="result")
    lowering.builder.close(fragment)
    return repetition


def _chain(relation: Relation) -> list[Relation] | None:
    """The relations from the whole query down to its one table; None when it is not that simple."""
    chain = [relation]
    grouped = False
    while not isinstance(chain[-1], Scan):
        here = chain[-1]
        simple = isinstance(here, _PLAIN if grouped else (*_ABOVE, *_PLAIN, Aggregate))
        if not simple or (isinstance(here, Aggregate) and not _combines(here)):
            return None
        grouped = grouped or isinstance(here, Aggregate)
        chain.append(sources_of(here)[0])
    return chain


def _asks_time(node: exp.Expr) -> bool:
    """Whether the time of asking is part of the question: then it is asked at the time of each epoch."""
    return any(call.name.lower() in _TIMES for call in node.find_all(exp.Func))


def _combines(aggregate: Aggregate) -> bool:
    """Whether partial states say all: a DISTINCT that needs equal values to meet does not, except to count them."""
    return all(not call.distinct or call.function == "count" for call in aggregate.calls.values())


def _core(chain: list[Relation]) -> int:
    """Where the part ends that is computed at the nodes: at the groups, or below what orders and thins out rows."""
    for at, each in enumerate(chain):
        if isinstance(each, Aggregate):
            return at
    return 1 + max((at for at, each in enumerate(chain) if isinstance(each, Ordered | Distinct)), default=-1)


def _groups(
    lowering: Lowering, core: Aggregate, scan: Relation, repetition: Repetition, node: exp.Expr
) -> Fragment:
    builder = lowering.builder
    assert isinstance(scan, Scan)
    calls = {name: _exact(call) for name, call in core.calls.items()} or {"": Call("count", ())}
    used = [*core.keys.values(), *(arg for call in calls.values() for arg in call.args)]
    wanted = list(fields_of(*used))
    windows = bool(scan.window_end)
    if windows:
        _check_windows(core, scan, node)
        wanted.append(scan.window_end)
    if not windows and repetition.range_s is not None:
        _by_age(lowering, repetition.range_s, repetition)
    fragment = lowering.lower(core.source, wanted)
    if windows:
        late_s = scan.window_s * LATENESS_WINDOWS if repetition.range_s is None else repetition.range_s
        builder.add(
            fragment, "windows", "cache", "Windows", end=Field(scan.window_end), lateness=f"{late_s:g}"
        )
        builder.note(
            f"windows of {scan.table}: each node gives those that are over; rows up to {late_s:g} s late revise them"
        )
    elif repetition.range_s is not None:
        _cache(lowering, fragment, scan, repetition.range_s, repetition)
    builder.add(fragment, "partial", "groupby", "Basic", **settings_of(core.keys, calls), mode="partial")
    settings = settings_of({name: Field(name) for name in core.keys}, calls)
    late = windows or repetition.range_s is not None
    channel = _put(lowering, fragment, "Epochs", repetition, repetition.every_s if late else 0.0, settings)
    builder.note(_described(repetition))
    more: dict[str, Setting] = {"states": "true"} if windows else {}
    fragment = builder.source(
        ASKER, "epochs", "scan", "Epochs", channel=channel, sets="true", **settings, **more
    )
    if windows:
        builder.add(fragment, "revised", "groupby", "Windows", **settings)
    fragment.columns = [*core.keys, *calls]
    return fragment


def _rows(
    lowering: Lowering, core: Relation, scan: Relation, parent: Relation | None, repetition: Repetition
) -> Fragment:
    builder = lowering.builder
    assert isinstance(scan, Scan)
    range_s = repetition.range_s or repetition.every_s
    _by_age(lowering, range_s, repetition)
    fragment = lowering.lower(core, core.names)
    _cache(lowering, fragment, scan, range_s, repetition)
    if isinstance(parent, Distinct):
        builder.add(fragment, "distinct", "dupelim", "Basic")
    if isinstance(parent, Ordered):
        lowering.first_rows(fragment, parent)
    columns = fragment.columns
    channel = _put(lowering, fragment, "EpochRows", repetition, repetition.every_s, {})
    builder.note(_described(repetition))
    fragment = builder.source(ASKER, "epochs", "scan", "EpochRows", channel=channel)
    fragment.columns = columns
    return fragment


def _by_age(lowering: Lowering, range_s: float, repetition: Repetition) -> None:
    """Rows of a published table are young or old wherever they lie: the scan of it picks them by their age."""
    lowering.window = _window(range_s, repetition)


def _window(range_s: float, repetition: Repetition) -> Window:
    """A range of one epoch needs no clock: each answer takes what came since the one before."""
    return Window(range_s, once=range_s == repetition.every_s)


def _cache(
    lowering: Lowering, fragment: Fragment, scan: Scan, range_s: float, repetition: Repetition
) -> None:
    """Rows of sources as they arrive, unless they are kept below the conditions already, beside published ones."""
    if "published" not in scan.places:
        lowering.keep_window(fragment, _window(range_s, repetition))
    lowering.builder.note(f"each answer is over what arrived within {range_s:g} s")


def _put(
    lowering: Lowering,
    fragment: Fragment,
    implementation: str,
    repetition: Repetition,
    first_s: float,
    settings: dict[str, Setting],
) -> str:
    channel = lowering.builder.name("epochs")
    times: dict[str, Setting] = {"every": f"{repetition.every_s:g}", "first": f"{first_s:g}"}
    if repetition.epochs is not None:
        times["count"] = str(repetition.epochs)
    lowering.builder.add(
        fragment,
        "send",
        "put",
        implementation,
        channel=channel,
        strategy=repetition.strategy,
        **times,
        **settings,
    )
    lowering.builder.close(fragment)
    return channel


def _described(repetition: Repetition) -> str:
    count = repetition.epochs
    until = "until it is cancelled" if count is None else f"{count} times"
    return f"EVERY {repetition.every_s:g} s, {until}: nodes' parts come together by {repetition.strategy}"


def _exact(call: Call) -> Call:
    """count(DISTINCT x) as an aggregate whose partial states can be combined."""
    return Call("count_distinct", call.args) if call.distinct else call


def _check_windows(core: Aggregate, scan: Scan, node: exp.Expr) -> None:
    if scan.window_end not in core.source.names:
        raise Refused("a continuous query groups where TUMBLE or HOP stands", node, "not around a subquery")
    starts = scan.window_end.removesuffix("end") + "start"
    if not any(key in (Field(scan.window_end), Field(starts)) for key in core.keys.values()):
        hint = "GROUP BY window_start or window_end, too"
        raise Refused("a continuous query over windows gives a row for each window", node, hint)
