"""Checks that need to know the operators: made at the proxy before a query spreads, and by every node that
receives an opgraph. Problems carry their place in the plan, so the author sees the line.
"""

from __future__ import annotations

from collections.abc import Iterator

from query.dataflow.check_expressions import expression_problems
from query.dataflow.cycles import components
from query.dataflow.registry import find, implementations
from query.dataflow.settings import Option, SettingError, read
from query.plan import Operator, Opgraph, Plan
from query.plan_hints import did_you_mean, quoted
from query.plan_problem import Place, Problem

#: Settings of an opgraph (PIER Appendix A, and `at`).
OPGRAPH_OPTIONS = (
    Option("duration", "number", "seconds after which the opgraph ends by itself", least=0.001, most=1e9),
    Option("ns", "text", "with rid: the namespace of the keys whose owners run the opgraph"),
    Option("rid", "texts", "the keys whose owners alone run the opgraph; every node runs it when absent"),
    Option("at", "choice", "asker: only the node that was asked runs the opgraph", choices=("asker",)),
)


def operator_problems(plan: Plan) -> Iterator[Problem]:
    """Everything the operators would object to, in the order of the text. The plan is well formed."""
    for number, opgraph in enumerate(plan.opgraphs):
        place = Place(number)
        if not opgraph.operators:
            yield Problem(place, "the opgraph has no operators")
        try:
            read(OPGRAPH_OPTIONS, opgraph.settings)
        except SettingError as error:
            where = place.at(error.setting) if error.setting in opgraph.settings else place
            yield Problem(where, f"setting {quoted(error.setting)}: {error.message}", error.hint)
        for position, operator in enumerate(opgraph.operators):
            yield from _problems(opgraph, operator, place.in_operator(position))
        yield from _cycle_problems(opgraph, place)


def _problems(opgraph: Opgraph, operator: Operator, place: Place) -> Iterator[Problem]:
    kind = find(operator.type, operator.implementation)
    if kind is None:
        known = implementations(operator.type)
        yield Problem(
            place.at("implementation"),
            f"there is no {operator.type} implementation {quoted(operator.implementation)}",
            did_you_mean(operator.implementation, known, "there is " + ", ".join(known)),
        )
        return
    try:
        kind.check(read(kind.OPTIONS, operator.settings), operator, opgraph)
    except SettingError as error:
        setting = error.setting.partition("[")[0]
        where = place.at(setting) if setting in operator.settings else place
        yield Problem(where, f"setting {quoted(error.setting)}: {error.message}", error.hint)
    yield from expression_problems(operator, place)
    least, most = kind.SOURCES
    count = len(operator.sources)
    if count < least or (most is not None and count > most):
        wanted = str(least) if least == most else f"{least} or more" if most is None else f"{least} to {most}"
        yield Problem(place, f"{kind.TYPE} {kind.IMPLEMENTATION} takes {wanted} sources, not {count}")
    consumers = [other.name for other in opgraph.operators if operator.name in other.sources]
    if len(consumers) > kind.CONSUMERS_MAX:
        hint = (
            "only a tee feeds several operators"
            if kind.CONSUMERS_MAX
            else f"{kind.TYPE} is a sink: nothing follows it"
        )
        yield Problem(place, f"feeds {len(consumers)} operators ({', '.join(consumers[:4])})", hint)
    if not consumers and kind.CONSUMERS_MAX:
        yield Problem(
            place,
            f"nothing takes what {quoted(operator.name)} produces",
            "end the opgraph in a result or a put",
        )


def _cycle_problems(opgraph: Opgraph, place: Place) -> Iterator[Problem]:
    sources = {operator.name: list(operator.sources) for operator in opgraph.operators}
    if any(source not in sources for names in sources.values() for source in names):
        return
    types = {operator.name: operator.type for operator in opgraph.operators}
    without_queues = {
        name: [source for source in names if types[source] != "queue"] if types[name] != "queue" else []
        for name, names in sources.items()
    }
    for members in components(without_queues):
        position = next(at for at, operator in enumerate(opgraph.operators) if operator.name == members[0])
        yield Problem(
            place.in_operator(position),
            f"cycle without a queue: {' -> '.join(members)}",
            "put a queue operator on the way back, so that the recursion can yield",
        )
    for members in components(sources):
        inside = set(members)
        if not any(source not in inside for name in members for source in sources[name]):
            position = next(
                at for at, operator in enumerate(opgraph.operators) if operator.name == members[0]
            )
            yield Problem(place.in_operator(position), f"nothing enters the cycle {' -> '.join(members)}")
