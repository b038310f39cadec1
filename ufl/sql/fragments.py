"""Opgraphs under construction: a fragment is one that has no sink yet, and the last operator of it.

Fragments grow by operators, merge, and are closed by an exchange: rows go into a namespace or to the node that was
asked, and a new fragment takes them up there. All exchanges of a query meet at the same owners (`meet`), so rows that
were hashed alike lie together, whichever way they came.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from query.plan import (
    OPERATORS_MAX,
    OPGRAPHS_MAX,
    Array,
    Expression,
    Field,
    Operator,
    Opgraph,
    Plan,
    Setting,
    Table,
)
from ufl.sql.errors import Refused

#: Where a fragment runs: on every node, on the one that was asked, on the owner of a key, or on those of a few.
EVERYWHERE, ASKER, OWNER, FEW = "everywhere", "asker", "owner", "few"


@dataclass(slots=True)
class Fragment:
    """Operators that run together, and where; `last` is the one whose rows are the result so far."""

    place: str
    operators: list[Operator]
    last: str
    #: The columns of the rows; None when they are not known.
    columns: list[str] | None
    #: Columns by which rows are spread over the nodes: equal values lie on one node. Several ways may hold.
    hashed: list[tuple[str, ...]] = field(default_factory=list)
    #: For a fragment at the owners of keys: the namespace and the keys' texts.
    target: tuple[str, tuple[str, ...]] | None = None

    @property
    def single(self) -> bool:
        """Whether all rows are on one node, so that nothing need travel to meet."""
        return self.place not in (EVERYWHERE, FEW)

    @property
    def site(self) -> tuple[str, tuple[str, tuple[str, ...]] | None]:
        return self.place, self.target


class Builder:
    """Makes the opgraphs of one query."""

    def __init__(self, query_id: str) -> None:
        self._prefix = f"pier.q.{query_id}"
        self._opgraphs: list[Opgraph] = []
        self._numbers: dict[str, int] = {}
        #: What was decided and why, for EXPLAIN.
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def plan(self) -> Plan:
        return Plan(tuple(self._opgraphs))

    def name(self, wish: str) -> str:
        number = self._numbers[wish] = self._numbers.get(wish, 0) + 1
        return f"{wish}{number}"

    # -- growing

    def source(self, place: str, wish: str, type_: str, implementation: str, **settings: Setting) -> Fragment:
        name = self.name(wish)
        operator = Operator(name, type_, implementation, (), dict(settings))
        return Fragment(place, [operator], name, None)

    def add(
        self, fragment: Fragment, wish: str, type_: str, implementation: str, **settings: Setting
    ) -> Fragment:
        """Puts an operator on top."""
        name = self.name(wish)
        fragment.operators.append(Operator(name, type_, implementation, (fragment.last,), dict(settings)))
        fragment.last = name
        return fragment

    def merge(
        self,
        fragments: Sequence[Fragment],
        wish: str,
        type_: str,
        implementation: str,
        **settings: Setting,
    ) -> Fragment:
        """One operator on top of several fragments at the same place."""
        assert len({each.site for each in fragments}) == 1, "fragments at different places"
        name = self.name(wish)
        sources = tuple(each.last for each in fragments)
        operators = [operator for each in fragments for operator in each.operators]
        operators.append(Operator(name, type_, implementation, sources, dict(settings)))
        return Fragment(fragments[0].place, operators, name, None, target=fragments[0].target)

    def visit(
        self,
        fragment: Fragment,
        wish: str,
        type_: str,
        implementation: str,
        inputs: int = 1,
        **settings: Setting,
    ) -> None:
        """An operator around the eddy that the fragment ends in: it takes rows from it and returns them."""
        name, eddy = self.name(wish), fragment.last
        fragment.operators.append(Operator(name, type_, implementation, (eddy,) * inputs, dict(settings)))
        fragment.operators.append(Operator(self.name("back"), "put", "Eddy", (name,), {"eddy": eddy}))

    def project(self, fragment: Fragment, outputs: Mapping[str, Expression], keep: bool = False) -> Fragment:
        """Columns computed; a change of names alone is done without computing."""
        plain = all(isinstance(each, Field) for each in outputs.values())
        fields = [each.name for each in outputs.values() if isinstance(each, Field)]
        hashed = _renamed(fragment.hashed, outputs)
        if keep:
            self.add(fragment, "compute", "projection", "Generate", columns=Table(dict(outputs)), keep="true")
            columns = None
        elif plain and len(set(fields)) == len(fields):
            renames = {field: name for name, field in zip(outputs, fields, strict=True) if field != name}
            if fragment.columns != list(outputs) or renames:
                settings: dict[str, Setting] = {"columns": Array(tuple(fields))}
                if renames:
                    settings["rename"] = Table(dict(renames))
                self.add(fragment, "columns", "projection", "Basic", **settings)
            columns = list(outputs)
        else:
            self.add(fragment, "compute", "projection", "Generate", columns=Table(dict(outputs)))
            columns = list(outputs)
        fragment.columns, fragment.hashed = columns, hashed
        return fragment

    def narrow(self, fragment: Fragment, needed: Sequence[str]) -> Fragment:
        """Leaves out columns nobody wants, before rows travel."""
        if fragment.columns is None:
            return fragment
        wanted = set(needed)
        kept = [name for name in fragment.columns if name in wanted] or fragment.columns[:1]
        if kept == fragment.columns:
            return fragment
        return self.project(fragment, {name: Field(name) for name in kept})

    # -- exchanging

    def close(self, fragment: Fragment) -> None:
        """The fragment has its sinks: it is an opgraph."""
        settings: dict[str, Setting] = {"at": "asker"} if fragment.place == ASKER else {}
        if fragment.target is not None:
            namespace, keys = fragment.target
            settings = {"ns": namespace, "rid": keys[0] if len(keys) == 1 else Array(keys)}
        if len(fragment.operators) > OPERATORS_MAX or len(self._opgraphs) >= OPGRAPHS_MAX:
            raise Refused("the query needs more operators than a plan may have")
        self._opgraphs.append(Opgraph(self.name("part"), settings, tuple(fragment.operators)))

    def namespace(self, wish: str) -> str:
        return f"{self._prefix}.{self.name(wish)}"

    def put(
        self, fragment: Fragment, namespace: str, keys: Sequence[Expression], drop_nulls: bool = False
    ) -> None:
        """Rows into a namespace, hashed by the keys; the fragment is done."""
        self.put_beside(fragment, namespace, keys, drop_nulls)
        self.close(fragment)

    def put_beside(
        self,
        fragment: Fragment,
        namespace: str,
        keys: Sequence[Expression],
        drop_nulls: bool = False,
        more: Mapping[str, Setting] | None = None,
    ) -> None:
        """The same as a second way out, beside what else becomes of the rows."""
        last = fragment.last
        settings: dict[str, Setting] = {**({"nulls": "drop"} if drop_nulls else {}), **(more or {})}
        self.add(
            fragment,
            "rehash",
            "put",
            "DHT",
            ns=namespace,
            keys=Array(tuple(keys)),
            meet=self._prefix,
            **settings,
        )
        fragment.last = last

    def send(self, fragment: Fragment, namespace: str, keys: Sequence[Expression]) -> None:
        """Rows hop by hop towards the owners of their keys; the fragment is done."""
        self.add(
            fragment,
            "send",
            "put",
            "DHTMessage",
            ns=namespace,
            keys=Array(tuple(keys)),
            meet=self._prefix,
            nulls="drop",
        )
        self.close(fragment)

    def exchange(self, fragment: Fragment, placement: str) -> Fragment:
        """All rows to every owner of a group (`all`), or each node's to itself if it is one (`near`)."""
        columns, namespace = fragment.columns, self.namespace("meet")
        self.add(
            fragment,
            "copy" if placement == "all" else "stay",
            "put",
            "DHT",
            ns=namespace,
            placement=placement,
        )
        self.close(fragment)
        taken = self.source(EVERYWHERE, "arrived", "scan", "DHT", ns=namespace)
        taken.columns = None if columns is None else list(columns)
        return taken

    def take_up(self, namespace: str, columns: list[str] | None, hashed: Sequence[Expression]) -> Fragment:
        """What was put into a namespace, at the owners."""
        fragment = self.source(EVERYWHERE, "arrived", "scan", "DHT", ns=namespace)
        fragment.columns = None if columns is None else list(columns)
        fields = tuple(each.name for each in hashed if isinstance(each, Field))
        if len(fields) == len(hashed):
            fragment.hashed = [fields]
        return fragment

    def rehash(
        self,
        fragment: Fragment,
        keys: Sequence[Expression],
        drop_nulls: bool = False,
        more: Mapping[str, Setting] | None = None,
    ) -> Fragment:
        """Rows of equal keys come together on one node; those without a key may be left out. Rows of a few nodes
        come to the asker: nobody else need hear of the query."""
        if fragment.place == FEW:
            return self._to_asker(fragment)
        columns = fragment.columns
        namespace = self.namespace("meet")
        self.put_beside(fragment, namespace, keys, drop_nulls, more)
        self.close(fragment)
        return self.take_up(namespace, columns, keys)

    def gather(self, fragment: Fragment) -> Fragment:
        """All rows on one node: as they are if they are so already, else at the node that was asked."""
        return fragment if fragment.single else self._to_asker(fragment)

    def climb(self, fragment: Fragment, **settings: Setting) -> Fragment:
        """Partial states of all nodes, combined on their way to the node that was asked; those of each node as they
        are where they outgrow the tree, as the values of an exact count_distinct may."""
        if fragment.place == FEW:
            return self._to_asker(fragment)
        channel = self.name("states")
        self.add(fragment, "climb", "put", "Tree", channel=channel, **settings)
        self.close(fragment)
        large = self._to_asker(self.source(EVERYWHERE, "large", "scan", "Overflow", channel=channel))
        combined = self.source(ASKER, "combined", "scan", "Tree", channel=channel)
        return self.merge([combined, large], "states", "union", "Basic")

    def meet_at_one(self, fragments: Sequence[Fragment]) -> list[Fragment]:
        """All rows of several fragments on the same node."""
        gathered = [self.gather(each) for each in fragments]
        if len({each.site for each in gathered}) == 1:
            return gathered
        return [each if each.place == ASKER else self._to_asker(each) for each in gathered]

    def _to_asker(self, fragment: Fragment) -> Fragment:
        channel, columns = self.name("rows"), fragment.columns
        self.add(fragment, "send", "put", "IP", channel=channel)
        self.close(fragment)
        here = self.source(ASKER, "gathered", "scan", "IP", channel=channel)
        here.columns = None if columns is None else list(columns)
        return here


def _renamed(hashed: list[tuple[str, ...]], outputs: Mapping[str, Expression]) -> list[tuple[str, ...]]:
    """The ways rows are spread, in terms of new names; those whose columns are gone are forgotten."""
    by_old = {each.name: name for name, each in outputs.items() if isinstance(each, Field)}
    return [tuple(by_old[name] for name in way) for way in hashed if all(name in by_old for name in way)]
