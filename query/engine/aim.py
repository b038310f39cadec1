"""Where a query goes: to every node, to a part of the ring, or only to the owners of the keys it is about.

A query that is about several keys is one spread to each; a node that owns more than one of them answers the first and
says of the others that it was asked before (`Report.again`). So whoever owns a key when the query gets there reads it.
"""

from __future__ import annotations

from collections.abc import Sequence

from overlay.ring import MASK, WHOLE, Arc, from_wire, routing_id
from overlay.spread.account import NOBODY
from overlay.spread.account import Account as Coverage
from overlay.spread.branch import Branch, Combine
from overlay.spread.spread import OnDone, Spread
from query.engine.spec import QuerySpec
from query.engine.stages import Stage, reading_published
from query.plan import Array, Constant, Opgraph

#: Keys that are asked for one by one; a query about more goes to every node.
KEYS_MAX = 64


def keys_of(opgraph: Opgraph) -> list[tuple[str, str]]:
    """Namespace and text of the keys whose owners alone run an opgraph: settings `ns` and `rid` (Appendix A); none is
    every node."""
    namespace, rid = opgraph.settings.get("ns"), opgraph.settings.get("rid")
    texts: Sequence[object] = rid.items if isinstance(rid, Array) else () if rid is None else (rid,)
    plain = [each.text if isinstance(each, Constant) else each for each in texts]
    space = namespace if isinstance(namespace, str) else ""
    return [(space, each) for each in plain if isinstance(each, str)]


def targets_of(opgraph: Opgraph) -> tuple[int, ...]:
    """The same as points of the ring."""
    return tuple(routing_id(namespace, key) for namespace, key in keys_of(opgraph))


def arcs_of(spec: QuerySpec, own_point: Arc) -> tuple[Arc, ...]:
    """The arcs whose owners a query goes to; `own_point` is the asker's own, which has opgraphs `at = asker`."""
    if spec.part is not None:
        return (Arc(from_wire(spec.part.start), from_wire(spec.part.end)),)
    keys: dict[int, None] = {}
    asker = False
    for opgraph in spec.plan.opgraphs:
        targets = targets_of(opgraph)
        if opgraph.settings.get("at") == "asker":
            asker = True
        elif not targets:
            return (WHOLE,)
        keys.update(dict.fromkeys(targets))
    if not keys or len(keys) > KEYS_MAX:
        return (WHOLE,)
    return (*(Arc(key, (key + 1) & MASK) for key in keys), *((own_point,) if asker else ()))


def published_arcs(spec: QuerySpec, stages: Sequence[Stage]) -> tuple[Arc, ...]:
    """The arcs of published tables that a query reads: points where it is about some keys, else all. None where it
    reads no such table, or only those at some nodes, whose arcs nobody knows beforehand."""
    arcs: dict[Arc, None] = {}
    for opgraph in reading_published(spec.plan, stages):
        targets = targets_of(opgraph)
        if not targets:
            return () if spec.part is not None else (WHOLE,)
        arcs.update({Arc(key, (key + 1) & MASK): None for key in targets})
    return tuple(arcs)


def spread_over(
    spread: Spread, arcs: Sequence[Arc], topic: str, payload: bytes, done: OnDone, combine: Combine
) -> list[Branch]:
    """One spread an arc; `done` gets the replies of all of them as one. Their roots."""
    left, whole, coverage = len(arcs), None, NOBODY

    def one(reply: bytes | None, covered: Coverage) -> None:
        nonlocal left, whole, coverage
        left, coverage = left - 1, coverage.plus(covered)
        if reply is not None:
            whole = reply if whole is None else combine(whole, reply)
        if left == 0:
            done(whole, coverage)

    return [spread.start(topic, payload, one, arc=arc, combine=combine) for arc in arcs]
