"""In which order the opgraphs of a query can be complete.

Opgraphs meet in namespaces of the DHT: one puts, another scans. What is scanned is complete once every opgraph that
puts into it is done on every node. Opgraphs that feed each other in a circle (a recursive query across nodes) can
only be complete together. So the opgraphs form stages: each depends on earlier stages alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from query.dataflow.cycles import components
from query.plan import Operator, Opgraph, Plan

#: What the channels of put Tree and put Epochs are called among namespaces.
TREE = "tree:"
EPOCHS = "epochs:"
#: What Bloom filters are called among namespaces.
FILTER = "bloom:"
#: Implementations of put and scan that meet, and the setting that says where. Channels between addresses
#: (put IP, scan IP) are kept apart from namespaces of the DHT by a prefix.
EXCHANGES = {
    "dht": ("ns", ""),
    "dhtmessage": ("ns", ""),
    "bloom": ("name", FILTER),
    "heavy": ("name", FILTER),
    "ip": ("channel", "ip:"),
    "tree": ("channel", TREE),
    "overflow": ("channel", TREE),
    "epochs": ("channel", EPOCHS),
    "epochrows": ("channel", EPOCHS),
}


@dataclass(frozen=True, slots=True)
class Stage:
    """Opgraphs that become complete together, and the namespaces that are complete when they are."""

    opgraphs: tuple[str, ...]
    namespaces: tuple[str, ...]
    #: Whether they feed each other: then nothing inside ends before all is quiet everywhere.
    cyclic: bool


def namespace_of(operator: Operator) -> str | None:
    """The namespace or channel an operator puts into or scans; None for those that do neither."""
    exchange = EXCHANGES.get(operator.implementation.lower())
    if exchange is None or not (_is_put(operator) or _is_scan(operator)):
        return None
    setting = operator.settings.get(exchange[0])
    return exchange[1] + setting if isinstance(setting, str) else None


def _is_put(operator: Operator) -> bool:
    return operator.type == "put"


def _is_scan(operator: Operator) -> bool:
    """A selection by a Bloom filter reads what all nodes have put under its name, as the marking of heavy keys does."""
    return operator.type == "scan" or (operator.type, operator.implementation.lower()) in (
        ("selection", "bloom"),
        ("projection", "heavy"),
    )


def needs_owners(plan: Plan) -> bool:
    """Whether rows go straight to the owners of partition groups, so that these must be known beforehand, or a filter
    is made in proportion to the number of nodes."""
    return any(
        _is_put(operator) and operator.implementation.lower() in ("dht", "bloom", "heavy")
        for opgraph in plan.opgraphs
        for operator in opgraph.operators
    )


def is_continuous(found: Sequence[Stage]) -> bool:
    """Whether there is an answer every epoch, rather than one."""
    return any(namespace.startswith(EPOCHS) for stage in found for namespace in stage.namespaces)


def reading_published(plan: Plan, found: Sequence[Stage]) -> list[Opgraph]:
    """The opgraphs that read objects of the DHT, once, which the query has not put there itself: each node that runs
    one shows those of its arc."""
    if is_continuous(found):
        return []
    internal = {namespace for stage in found for namespace in stage.namespaces}
    return [
        opgraph
        for opgraph in plan.opgraphs
        if opgraph.settings.get("at") != "asker"
        and any(
            _is_scan(operator)
            and operator.implementation.lower() == "dht"
            and namespace_of(operator) not in internal
            for operator in opgraph.operators
        )
    ]


def keeps_rows(plan: Plan) -> bool:
    """Whether nodes hold rows for others beyond their own part of the query."""
    return any(
        (operator.type, operator.implementation.lower()) == ("cache", "rows")
        for opgraph in plan.opgraphs
        for operator in opgraph.operators
    )


def fed_by(opgraph: Opgraph) -> dict[str, None]:
    """Namespaces that the opgraph puts into, as an ordered set."""
    return _namespaces(opgraph, _is_put)


def read_by(opgraph: Opgraph) -> dict[str, None]:
    """Namespaces that the opgraph scans."""
    return _namespaces(opgraph, _is_scan)


def stages(plan: Plan) -> list[Stage]:
    """The stages of a plan, each after those it depends on, as few as there can be."""
    feeds = {opgraph.name: fed_by(opgraph) for opgraph in plan.opgraphs}
    sources = {
        opgraph.name: [
            name for name, namespaces in feeds.items() if any(ns in namespaces for ns in read_by(opgraph))
        ]
        for opgraph in plan.opgraphs
    }
    cycles = {name: tuple(members) for members in components(sources) for name in members}
    done: dict[str, None] = {}
    result: list[Stage] = []
    while len(done) < len(sources):
        # Opgraphs that wait for nothing more are complete together: a stage costs a round through the ring.
        ready = dict(done)
        together: list[str] = []
        circles: list[tuple[str, ...]] = []
        for name in sources:
            members = cycles.get(name, (name,))
            inside = set(members)
            needed = [source for member in members for source in sources[member] if source not in inside]
            if name not in ready and all(source in done for source in needed):
                ready.update(dict.fromkeys(members))
                if name in cycles:
                    circles.append(members)
                else:
                    together.append(name)
        done = ready
        for members in ((tuple(together),) if together else ()) + tuple(circles):
            namespaces = tuple({ns: None for member in members for ns in feeds[member]})
            result.append(Stage(members, namespaces, members[0] in cycles))
    return [
        Stage(
            stage.opgraphs,
            tuple(ns for ns in stage.namespaces if _is_last(ns, result[at + 1 :])),
            stage.cyclic,
        )
        for at, stage in enumerate(result)
    ]


def passes_on(opgraph: Opgraph, internal: Collection[str]) -> bool:
    """Whether everything the opgraph reads was put there by the query itself, as the namespaces of its stages say."""
    scans = [operator for operator in opgraph.operators if operator.type == "scan"]
    return bool(scans) and all(namespace_of(scan) in internal for scan in scans)


def shared(plan: Plan, found: Sequence[Stage], idle: Collection[str] = ()) -> int:
    """How many of the stages other nodes than the asker have part in, those left out that only have `idle` opgraphs;
    behind them it is alone. At least one, so that every node is asked."""
    alone = {opgraph.name for opgraph in plan.opgraphs if opgraph.settings.get("at") == "asker"} | set(idle)
    last = max((at for at, stage in enumerate(found) if not alone.issuperset(stage.opgraphs)), default=0)
    return last + 1


def without_rows(plan: Plan, overflowed: Collection[str]) -> dict[str, None]:
    """Opgraphs that will get no rows, because only these channels have outgrown their trees: what they read
    is an overflow that is none, or is fed by such opgraphs alone. An ordered set."""
    idle: dict[str, None] = {}
    for stage in stages(plan):
        for opgraph in plan.opgraphs:
            if opgraph.name in stage.opgraphs and not stage.cyclic:
                scans = [operator for operator in opgraph.operators if operator.type == "scan"]
                if scans and all(_is_empty(scan, plan, idle, overflowed) for scan in scans):
                    idle[opgraph.name] = None
    return idle


def takes_overflow(plan: Plan, channel: str) -> bool:
    """Whether states that outgrow the tree of this channel have somewhere to go."""
    return any(
        operator.type == "scan"
        and operator.implementation.lower() == "overflow"
        and operator.settings.get("channel") == channel
        for opgraph in plan.opgraphs
        for operator in opgraph.operators
    )


def _is_empty(scan: Operator, plan: Plan, idle: Collection[str], overflowed: Collection[str]) -> bool:
    namespace = namespace_of(scan)
    if scan.implementation.lower() == "overflow":
        return scan.settings.get("channel") not in overflowed
    feeders = [opgraph.name for opgraph in plan.opgraphs if namespace in fed_by(opgraph)]
    return namespace is not None and bool(feeders) and all(name in idle for name in feeders)


def _is_last(namespace: str, later: list[Stage]) -> bool:
    """A namespace is complete with the last of the stages that feed it."""
    return not any(namespace in stage.namespaces for stage in later)


def _namespaces(opgraph: Opgraph, kind: Callable[[Operator], bool]) -> dict[str, None]:
    found = (namespace_of(operator) for operator in opgraph.operators if kind(operator))
    return {namespace: None for namespace in found if namespace is not None}


def takes_all(plan: Plan) -> bool:
    """Whether whatever is put for another opgraph is read there as a whole: not where rows are fetched by their keys
    from where they were put."""
    fed = {namespace for opgraph in plan.opgraphs for namespace in fed_by(opgraph)}
    scans = (scan for opgraph in plan.opgraphs for scan in _fetched_from(opgraph))
    return not any(namespace_of(scan) in fed for scan in scans)


def _fetched_from(opgraph: Opgraph) -> Iterator[Operator]:
    """Scans below the second source of an index join."""
    operators = {operator.name: operator for operator in opgraph.operators}
    for join in opgraph.operators:
        if (join.type, join.implementation.lower()) == ("join", "index"):
            seen: dict[str, None] = {}
            frontier = list(join.sources[1:])
            while frontier:
                name = frontier.pop()
                if name not in seen and name in operators:
                    seen[name] = None
                    frontier.extend(operators[name].sources)
            yield from (operators[name] for name in seen if _is_scan(operators[name]))


def is_divisible(plan: Plan) -> bool:
    """Whether every node's rows go straight into the answer, so that parts of the ring can be asked one by one."""
    return not any(
        "at" in opgraph.settings
        or "rid" in opgraph.settings
        or any(_is_put(operator) for operator in opgraph.operators)
        for opgraph in plan.opgraphs
    )
