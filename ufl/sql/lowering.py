"""From algebra to opgraphs: for each kind of relation, which operators compute it and where rows must meet for that.

| relation | how it is computed |
|---|---|
| table | where its rows lie: sources of every node, and the DHT |
| condition, columns | there, too |
| groups | partial states at each node, rehashed by the keys, made final by their owners; without keys at the asker |
| DISTINCT, INTERSECT, EXCEPT | the same, all columns being keys |
| ORDER BY, LIMIT | the first rows of each node, then of those at the asker |
| join | by one of several strategies (`joins.py`) |

`needed` says which columns the relation above wants; nothing else travels.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from query.batch.key_text import key_of
from query.engine.aim import KEYS_MAX
from query.plan import Array, Constant, Expression, Field, Setting, fields_of
from ufl.sql import eddies, groups, joins, recursion, setops
from ufl.sql.aiming import key_values
from ufl.sql.fragments import ASKER, EVERYWHERE, FEW, OWNER, Builder, Fragment
from ufl.sql.indexes import indexed
from ufl.sql.leading import Leading, first_rows, leading
from ufl.sql.relations import (
    Aggregate,
    Distinct,
    Filter,
    Found,
    Join,
    Ordered,
    Project,
    Ready,
    Recursive,
    Relation,
    Repeated,
    Scan,
    SetOperation,
    Single,
    Values,
    conjuncts,
    is_chain,
    replaced,
)
from ufl.sql.steps import Steps

_ONE = Constant("1", "long")


@dataclass(frozen=True, slots=True)
class Window:
    """Of a table that is asked again and again: the rows that arrived within a time, or since the answer before."""

    age_s: float
    once: bool

    def of_scan(self) -> dict[str, Setting]:
        return {"window": f"{self.age_s:g}", **({"once": "true"} if self.once else {})}


class Lowering:
    """Lowers one query."""

    def __init__(self, query_id: str, steps: Steps | None = None) -> None:
        self.builder = Builder(query_id)
        self._steps = steps or Steps()
        #: While the step of a recursion is lowered: the fragment in which rows found before come in.
        self.found: list[tuple[Found, Fragment]] = []
        #: Whether parts about one key run at its owner alone.
        self.aims = True
        #: Whether they may also run at a few owners: where nothing else has to meet them.
        self.aims_few = False
        #: Where only the first rows of a table by one of its columns are wanted.
        self.leading: Leading | None = None
        #: Whether all rows of what is lowered are wanted before any: there is an aggregate or a sort above.
        self.whole = False
        #: In a continuous query: which rows of its table an answer is about.
        self.window: Window | None = None

    def keep_window(self, fragment: Fragment, window: Window) -> None:
        """Keeps the rows of a source as they arrive, as long as they are in the window."""
        settings: dict[str, Setting] = {"fill": "stream"}
        if window.once:
            settings["clear"] = "true"
        else:
            settings["age"] = f"{window.age_s:g}"
        self.builder.add(fragment, "window", "cache", "MemCache", **settings)

    def root(self, relation: Relation) -> None:
        self.aims_few = is_chain(relation)
        fragment = self.lower(relation, relation.names)
        self.builder.add(fragment, "answer", "result", "NetSend", table="result")
        self.builder.close(fragment)

    def lower(self, relation: Relation, needed: Sequence[str]) -> Fragment:
        """A fragment with at least the needed columns of the relation."""
        self._steps.spend(1 + len(needed))
        if isinstance(relation, Scan):
            return self._scan(relation)
        if isinstance(relation, Repeated):
            return self._repeated(relation)
        if isinstance(relation, Ready):
            assert isinstance(relation.fragment, Fragment)
            return relation.fragment
        if isinstance(relation, Values):
            return self._values(relation)
        if isinstance(relation, Project):
            return self._project(relation, needed)
        if isinstance(relation, Filter):
            return self._filter(relation, needed)
        if isinstance(relation, Aggregate):
            with self._as_a_whole():
                return groups.aggregate(self, relation, needed)
        if isinstance(relation, Distinct):
            return groups.distinct(self, relation)
        if isinstance(relation, Ordered) and relation.keys:
            with self._as_a_whole():
                return self._ordered(relation, needed)
        if isinstance(relation, Ordered):
            return self._ordered(relation, needed)
        if isinstance(relation, Join):
            return joins.join(self, relation, needed)
        if isinstance(relation, Single):
            return self._single(relation)
        if isinstance(relation, SetOperation):
            return setops.set_operation(self, relation)
        if isinstance(relation, Recursive):
            return recursion.recursive(self, relation)
        assert isinstance(relation, Found), type(relation)
        inside, fragment = self.found.pop()
        assert inside is relation, "recursions are lowered from the inside out"
        return fragment

    @contextmanager
    def _as_a_whole(self) -> Iterator[None]:
        before, self.whole = self.whole, True
        yield
        self.whole = before

    # -- one input

    def _scan(self, scan: Scan, columns: Sequence[str] | None = None, keys: tuple[str, ...] = ()) -> Fragment:
        """A table where it lies; with `columns` no other column need be read, with `keys` only their owners read."""
        builder = self.builder
        origin: dict[str, Setting] = {"origin": Array(tuple(scan.origin))} if scan.origin else {}
        wanted: dict[str, Setting] = dict(origin)
        if columns is not None:
            # Where a row is read is not read itself; a table that has such a column of its own knows it by name.
            wanted["columns"] = Array(tuple(dict.fromkeys(columns)))
        places = [place for place in ("source", "published") if place in scan.places] or ["source"]
        fragments = []
        for place in places:
            if place == "source":
                local = builder.source(EVERYWHERE, "local", "scan", "Local", table=scan.table, **wanted)
                if self.window is not None and len(places) > 1:
                    self.keep_window(local, self.window)
                fragments.append(local)
            else:
                aged = {} if self.window is None else self.window.of_scan()
                stored = builder.source(EVERYWHERE, "stored", "scan", "DHT", ns=scan.table, **origin, **aged)
                fragments.append(stored)
        fragment = (
            fragments[0] if len(fragments) == 1 else builder.merge(fragments, "table", "union", "Basic")
        )
        if keys:
            fragment.place, fragment.target = OWNER if len(keys) == 1 else FEW, (scan.table, keys)
            whose = "the key's owner reads" if len(keys) == 1 else f"the owners of {len(keys)} keys read"
            by = ", ".join(scan.keys)
            builder.note(f"{scan.table}: the condition says its key ({by}), so only {whose} it")
        else:
            where = {"source": "its own sources", "published": "what is published there"}
            builder.note(f"{scan.table}: every node reads {' and '.join(where[place] for place in places)}")
        return fragment

    def _repeated(self, relation: Repeated, columns: Sequence[str] | None = None) -> Fragment:
        wanted = None if columns is None else [name for name in columns if name != relation.number]
        times = Constant(str(relation.times), "long")
        fragment = self._scan(relation.source, wanted)
        return self.builder.add(
            fragment, "copies", "projection", "Repeat", times=times, number=relation.number
        )

    def _values(self, values: Values) -> Fragment:
        cells = [cell for row in values.rows for cell in row]
        names = tuple(values.names)
        fragment = self.builder.source(
            ASKER, "values", "scan", "Values", columns=Array(names), values=Array(tuple(cells))
        )
        fragment.columns = list(names)
        return fragment

    def _project(self, project: Project, needed: Sequence[str]) -> Fragment:
        wanted = set(needed)
        outputs = {name: each for name, each in project.outputs.items() if name in wanted or project.keep}
        below = project.source
        if isinstance(below, Project) and not below.keep and not project.keep:
            fields = [each.name for each in outputs.values() if isinstance(each, Field)]
            if len(fields) == len(outputs) == len(set(fields)):
                # A change of names alone is left to the projection below.
                merged = {name: below.outputs[field] for name, field in zip(outputs, fields, strict=True)}
                shape = [column for column in project.shape if column.name in merged]
                return self._project(Project(shape, below.source, merged), needed)
        used = list(fields_of(*outputs.values()))
        if isinstance(below, Scan) and not project.keep:
            fragment = self._scan(below, used)
        elif isinstance(below, Repeated) and not project.keep:
            fragment = self._repeated(below, used)
        else:
            fragment = self.lower(below, used)
        if not outputs:
            # Rows without columns cannot be counted: one stays.
            outputs = {"": Constant("true", "bool")}
        return self.builder.project(fragment, outputs, project.keep)

    def _filter(self, relation: Filter, needed: Sequence[str]) -> Fragment:
        source = relation.source
        if isinstance(source, Project) and isinstance(source.source, Scan) and not source.keep:
            pushed = self._filtered_table(relation, source, needed)
            if pushed is not None:
                return pushed
        fragment = self.lower(source, [*needed, *fields_of(relation.condition)])
        return eddies.where(self.builder, fragment, relation.condition, relation.eddy)

    def _filtered_table(self, relation: Filter, table: Project, needed: Sequence[str]) -> Fragment | None:
        """A condition on a table is tested on its rows as they are, before columns are picked."""
        names: dict[Expression, Expression] = {Field(name): each for name, each in table.outputs.items()}
        if not all(isinstance(each, Field) for each in table.outputs.values()):
            return None
        condition = replaced(relation.condition, names)
        wanted = set(needed)
        outputs = {name: each for name, each in table.outputs.items() if name in wanted}
        assert isinstance(table.source, Scan)
        keys = self._aim(table, table.source, condition)
        fragment = self._scan(table.source, list(fields_of(condition, *outputs.values())), keys)
        if fragment.place == EVERYWHERE and self.aims and not table.source.origin:
            fragment = self._through_index(relation, table.source, condition) or fragment
        fragment = eddies.where(self.builder, fragment, condition, relation.eddy)
        return self.builder.project(fragment, outputs or {"": Constant("true", "bool")})

    def _through_index(self, relation: Filter, scan: Scan, condition: Expression) -> Fragment | None:
        if self.leading is not None and self.leading.relation is relation:
            first = first_rows(self.builder, scan, condition, self.leading)
            if first is not None:
                return first
        return indexed(self.builder, scan, condition)

    def _aim(self, table: Project, scan: Scan, condition: Expression) -> tuple[str, ...]:
        """The keys that a condition is about, where it says the whole partitioning key of a published table: then one
        node is concerned, or a few; none when it does not say."""
        if scan.places != ("published",) or not scan.keys or not self.aims:
            return ()
        kinds = {column.label: column.kind for column in table.shape}
        parts = [key_values(name, kinds.get(name), conjuncts(condition)) for name in scan.keys]
        if not 1 <= math.prod(map(len, parts)) <= (KEYS_MAX if self.aims_few else 1):
            return ()
        return tuple(key_of(each) for each in itertools.product(*parts))

    def _ordered(self, relation: Ordered, needed: Sequence[str]) -> Fragment:
        builder = self.builder
        used = fields_of(*(key.expression for key in relation.keys))
        self.leading = leading(relation)
        fragment = self.lower(relation.source, [*needed, *used])
        keys = _order_settings(relation)
        limit, offset = relation.limit, relation.offset
        first = "TopK" if keys else "Limit"
        if not fragment.single:
            self.first_rows(fragment, relation)
        fragment = builder.gather(fragment)
        if limit is not None:
            return builder.add(fragment, "first", "sort", first, **keys, limit=str(limit), offset=str(offset))
        if keys:
            builder.add(fragment, "order", "sort", "Basic", **keys)
            builder.note("ORDER BY without LIMIT: all rows are sorted at the node that was asked")
        if offset:
            builder.add(fragment, "first", "sort", "Limit", offset=str(offset))
        return fragment

    def first_rows(self, fragment: Fragment, relation: Ordered) -> None:
        """Of the rows of one node only those that can be among the first of all."""
        if relation.limit is None:
            return
        keys = _order_settings(relation)
        count = relation.limit + relation.offset
        self.builder.add(fragment, "first", "sort", "TopK" if keys else "Limit", **keys, limit=str(count))
        self.builder.note(f"LIMIT: at most {count} rows of each node travel, the rest is left out there")

    def _single(self, relation: Single) -> Fragment:
        builder = self.builder
        fragment = self.lower(relation.source, relation.names)
        keys = tuple(Field(name) for name in relation.keys)
        columns = Array(tuple(relation.names))
        if not keys:
            fragment = builder.gather(fragment)
            types = groups.types_of(relation.columns)
            return builder.add(fragment, "single", "groupby", "Single", columns=columns, **types)
        fragment = self.together(fragment, keys)
        return builder.add(fragment, "single", "groupby", "Single", keys=Array(keys))

    def together(self, fragment: Fragment, keys: Sequence[Expression]) -> Fragment:
        """Rows of equal keys on one node, hashed in the order of the keys; as it is when it is so already."""
        fields = tuple(key.name for key in keys if isinstance(key, Field))
        if fragment.place == EVERYWHERE and len(fields) == len(keys) and fields in fragment.hashed:
            return fragment
        return self.builder.rehash(fragment, keys)


def _order_settings(relation: Ordered) -> dict[str, Setting]:
    if not relation.keys:
        return {}
    return {
        "keys": Array(tuple(key.expression for key in relation.keys)),
        "order": Array(tuple(key.text for key in relation.keys)),
    }
