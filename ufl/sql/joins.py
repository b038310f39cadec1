"""Joins as opgraphs: the strategies of PIER 4.3 and CAN 4, and which kinds of joins each can do.

| strategy | how | kinds |
|---|---|---|
| hash | both sides rehashed by their keys, joined by the owners as rows arrive | all |
| fetch | outer rows stay and ask the DHT for the inner rows of their keys | those that keep outer rows at most |
| semi | keys and places are rehashed and joined, the rows of pairs fetched | all; further conditions: inner |
| bloom | rows that can have no partner, by a filter of all keys, are not rehashed | all but full |
| hierarchical | rows travel hop by hop, joined at every node on the way | inner |
| skew | as hash; rows of very frequent keys are dealt out, their partners copied | all but full |
| eddy | one table stays, every owner gets the others, all joins around one eddy (`ufl.sql.eddies`) | inner |
| nested | one side stays, every owner gets the other: also for conditions that are no equality | all but full |

Conditions on one side and columns nobody wants are gone before rows travel; what needs both sides is tested where pairs
are made. Keys with a NULL equal nothing: such rows travel only where an outer join keeps them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from query.plan import Array, Constant, Expression, Field, Setting, Table, fields_of
from ufl.sql import eddies
from ufl.sql.errors import Refused
from ufl.sql.fragments import EVERYWHERE, Fragment
from ufl.sql.hints import BLOOM, EDDY, FETCH, HASH, HIERARCHICAL, NESTED, SEMIJOIN, SKEW
from ufl.sql.kinds import type_texts
from ufl.sql.matches import inner_table
from ufl.sql.relations import (
    ANTI,
    FULL,
    INNER,
    LEFT,
    RIGHT,
    SEMI,
    Found,
    Join,
    can_be_read_again,
    walk,
)
from ufl.sql.sizes import size_of, smaller
from ufl.sql.strategy import Choice, choose

if TYPE_CHECKING:
    from ufl.sql.lowering import Lowering

_ONE = Constant("1", "long")
#: Sides whose rows all stay in the result, partner or not.
_KEPT = {INNER: (), LEFT: (0,), RIGHT: (1,), FULL: (0, 1), SEMI: (), ANTI: (0,)}
#: A join with its sides changed; semi and anti joins have none.
_SWAPPED = {INNER: INNER, LEFT: RIGHT, RIGHT: LEFT, FULL: FULL}


def join(lowering: Lowering, join: Join, needed: Sequence[str]) -> Fragment:
    """A fragment with at least the needed columns of the join."""
    return _Joining(lowering, join, needed).lower()


class _Joining:
    """One join while it is lowered."""

    def __init__(self, lowering: Lowering, join: Join, needed: Sequence[str]) -> None:
        self._lowering = lowering
        self._builder = lowering.builder
        self._join = join
        self._needed = list(needed)
        self._keys: list[list[Expression]] = [[key[side] for key in join.keys] for side in (0, 1)]

    def lower(self) -> Fragment:
        choice = self._choice()
        ways = {
            HASH: self._hash,
            FETCH: self._fetch,
            SEMIJOIN: self._semijoin,
            BLOOM: self._bloom,
            HIERARCHICAL: self._hierarchical,
            NESTED: self._nested,
            SKEW: self._skew,
            EDDY: self._eddy,
        }
        fragment = ways[choice.strategy](choice)
        return self._hashed(fragment) if choice.strategy in (HASH, SEMIJOIN, BLOOM) else fragment

    # -- which

    def _choice(self) -> Choice:
        hint, offered = self._join.hint, self._offered()
        if hint and self._join.keys:
            if hint not in offered:
                raise Refused(
                    f"this {self._join.kind} join cannot be made by {hint}: {self._why_not(hint)}",
                    None,
                    "it can by " + ", ".join(offered),
                    word=hint,
                )
            return Choice(hint, "by hint")
        if not self._join.keys:
            return Choice(NESTED, "there is no equality between its sides")
        return choose(self._join, offered, len(self._wanted(0)), len(self._wanted(1)))

    def _offered(self) -> dict[str, str]:
        """Strategies that this join can use; the value says which side plays the special part."""
        kind, conditional = self._join.kind, self._join.condition is not None
        recursive = any(isinstance(each, Found) for each in walk(self._join))
        offered = {HASH: ""}
        if self._fetched_side() is not None:
            offered[FETCH] = "left" if self._fetched_side() == 0 else "right"
        if not recursive:
            if kind == INNER or not conditional:
                offered[SEMIJOIN] = ""
            if kind != FULL:
                offered[BLOOM] = ""
                if can_be_read_again(self._join.right if kind == RIGHT else self._join.left):
                    offered[SKEW] = ""
            if kind == INNER:
                offered[HIERARCHICAL] = ""
                offered[EDDY] = ""
        if kind != FULL:
            offered[NESTED] = "left" if kind == RIGHT else "right"
        return offered

    def _why_not(self, strategy: str) -> str:
        if any(isinstance(each, Found) for each in walk(self._join)):
            return "it is part of a recursion"
        if strategy == FETCH:
            return "its inner side must be a table that is published under exactly the columns joined"
        if strategy == SKEW and self._join.kind != FULL:
            return "the keys of a subquery cannot be counted beforehand"
        if strategy == SEMIJOIN:
            return "a condition beside equalities needs the rows themselves"
        return "it must keep rows without partner"

    def _fetched_side(self) -> int | None:
        """The side whose rows can be asked for by key."""
        join = self._join
        for side, kinds in ((1, (INNER, LEFT, SEMI, ANTI)), (0, (INNER, RIGHT))):
            relation, other = (join.left, join.right) if side == 0 else (join.right, join.left)
            if join.kind in kinds and inner_table(relation, self._keys[side], other, self._keys[1 - side]):
                return side
        return None

    # -- sides

    def _wanted(self, side: int) -> list[str]:
        join = self._join
        relation = join.right if side else join.left
        used = [*self._needed, *fields_of(*self._keys[side])]
        if join.condition is not None:
            used += fields_of(join.condition)
        own = set(relation.names)
        return list(dict.fromkeys(used if relation.open else [name for name in used if name in own]))

    def _side(self, side: int) -> Fragment:
        relation = self._join.right if side else self._join.left
        wanted = self._wanted(side)
        fragment = self._lowering.lower(relation, wanted)
        return fragment if relation.open else self._builder.narrow(fragment, wanted)

    def _sides(self) -> list[Fragment]:
        return [self._side(0), self._side(1)]

    def _together(self, fragment: Fragment, side: int) -> Fragment:
        """Rows of equal keys on one node; as it is when it is so already."""
        keys = self._keys[side]
        fields = tuple(key.name for key in keys if isinstance(key, Field))
        if fragment.place == EVERYWHERE and len(fields) == len(keys) and fields in fragment.hashed:
            return fragment
        return self._builder.rehash(fragment, keys, self._drops_nulls(side))

    def _drops_nulls(self, side: int) -> bool:
        return side not in _KEPT[self._join.kind]

    def _together_already(self, sides: Sequence[Fragment]) -> bool:
        """Whether all rows of both sides are on one node, so that no strategy is needed."""
        if sides[0].site == sides[1].site and sides[0].single:
            self._note("", "where its rows are already")
            return True
        return False

    def _note(self, strategy: str, how: str, choice: Choice | None = None) -> None:
        why = "" if choice is None else f" ({choice.why})"
        by = f" by {strategy}" if strategy else ""
        self._builder.note(f"{self._join.kind} join{by}{why}: {how}")

    # -- strategies

    def _hash(self, choice: Choice) -> Fragment:
        sides = self._sides()
        if self._together_already(sides):
            return self._paired(sides)
        sides = [self._together(each, side) for side, each in enumerate(sides)]
        self._note(HASH, "both sides are rehashed by their keys and joined by the owners", choice)
        return self._paired(sides, first=self._first())

    def _bloom(self, choice: Choice) -> Fragment:
        kept = _KEPT[self._join.kind]
        filtered = [side for side in (0, 1) if side not in kept]
        again = [can_be_read_again(each) for each in (self._join.left, self._join.right)]
        if len(filtered) == 2 and not all(again):
            # The rows of a subquery come once: its keys filter the other side, itself it is not filtered.
            filtered = [0] if not again[1] else [1]
        fragments: list[Fragment | None] = [None, None]
        names = [self._builder.name("keys"), self._builder.name("keys")]
        for side in filtered:
            other = 1 - side
            if again[other]:
                self._put_filter(self._only_keys(other), other, names[other])
            else:
                fragment = self._builder.add(self._side(other), "copy", "tee", "Basic")
                last = fragment.last
                self._add_filter(fragment, other, names[other])
                fragment.last = last
                fragments[other] = fragment
        sides = [
            fragment if fragment is not None else self._side(side) for side, fragment in enumerate(fragments)
        ]
        for side in filtered:
            self._builder.add(
                sides[side],
                "likely",
                "selection",
                "Bloom",
                name=names[1 - side],
                keys=Array(tuple(self._keys[side])),
            )
        sides = [
            self._builder.rehash(each, self._keys[at], self._drops_nulls(at)) for at, each in enumerate(sides)
        ]
        which = "both sides" if len(filtered) == 2 else ("left rows", "right rows")[filtered[0]]
        self._note(
            BLOOM, f"filters of the keys climb the tree; {which} without partner are not rehashed", choice
        )
        return self._paired(sides, first=self._first())

    def _skew(self, choice: Choice) -> Fragment:
        """The keys of one side are counted; rows of its frequent keys are dealt out among all owners, and the rows of
        the other side with such a key go to all of them."""
        builder = self._builder
        dealt = 1 if self._join.kind == RIGHT else 0
        name, mark = builder.name("counts"), builder.name("heavy")
        counted = self._only_keys(dealt)
        builder.add(counted, "count", "put", "Heavy", name=name, keys=Array(tuple(self._keys[dealt])))
        builder.close(counted)
        sides = []
        for side, fragment in enumerate(self._sides()):
            keys, columns = Array(tuple(self._keys[side])), fragment.columns
            builder.add(fragment, "mark", "projection", "Heavy", name=name, keys=keys, column=mark)
            how = "deal" if side == dealt else "copy"
            taken = builder.rehash(
                fragment, self._keys[side], self._drops_nulls(side), {"heavy": mark, "marked": how}
            )
            taken.columns, taken.hashed = columns, []
            sides.append(taken)
        which = ("left", "right")[dealt]
        self._note(
            SKEW,
            f"{which} rows of frequent keys are dealt out among the owners, which all get their partners",
            choice,
        )
        return self._paired(sides, first=self._first())

    def _only_keys(self, side: int) -> Fragment:
        relation = self._join.right if side else self._join.left
        wanted = list(fields_of(*self._keys[side]))
        return self._builder.narrow(self._lowering.lower(relation, wanted), wanted)

    def _put_filter(self, fragment: Fragment, side: int, name: str) -> None:
        self._add_filter(fragment, side, name)
        self._builder.close(fragment)

    def _add_filter(self, fragment: Fragment, side: int, name: str) -> None:
        self._builder.add(fragment, "filter", "put", "Bloom", name=name, keys=Array(tuple(self._keys[side])))

    def _semijoin(self, choice: Choice) -> Fragment:
        builder, kind = self._builder, self._join.kind
        sides = self._sides()
        if self._together_already(sides):
            return self._paired(sides)
        channels, ids, keys = [], [], []
        columns = [each.columns for each in sides]
        for side, fragment in enumerate(sides):
            channel = builder.name("rows")
            names = [builder.name("key") for _ in self._keys[side]]
            builder.add(
                fragment,
                "keep",
                "cache",
                "Rows",
                channel=channel,
                id=channel,
                keys=Table(dict(zip(names, self._keys[side], strict=True))),
            )
            ids.append([f"{channel}.at", f"{channel}.row"])
            fragment.columns, fragment.hashed = [*names, *ids[-1]], []
            channels.append(channel)
            keys.append([Field(name) for name in names])
            sides[side] = builder.rehash(fragment, keys[-1], self._drops_nulls(side))
        settings: dict[str, Setting] = {
            "leftkeys": Array(tuple(keys[0])),
            "rightkeys": Array(tuple(keys[1])),
            "leftcolumns": Array(tuple(ids[0])),
            "rightcolumns": Array(tuple(ids[1])),
            "kind": kind,
        }
        fragment = builder.merge(sides, "pairs", "join", "SymmetricHash", **settings)
        once = kind in (SEMI, ANTI)
        outputs, result = self._outputs(columns)
        fetch: dict[str, Setting] = {"leftchannel": channels[0], "leftid": channels[0], **outputs}
        if not once:
            fetch.update(rightchannel=channels[1], rightid=channels[1])
        builder.add(fragment, "fetch", "join", "Rows", **fetch)
        fragment.columns = result
        self._note(
            SEMIJOIN,
            "keys and places of rows are joined by the owners, which fetch the rows of pairs",
            choice,
        )
        return fragment

    def _fetch(self, choice: Choice) -> Fragment:
        side = self._fetched_side()
        assert side is not None, "offered"
        this = self
        if side == 0:
            swapped = Join(
                self._join.right,
                self._join.left,
                _SWAPPED[self._join.kind],
                [(right, left) for left, right in self._join.keys],
                self._join.condition,
            )
            this = _Joining(self._lowering, swapped, self._needed)
        return this._fetch_right(choice)

    def _fetch_right(self, choice: Choice) -> Fragment:
        builder, join = self._builder, self._join
        table = inner_table(join.right, self._keys[1], join.left, self._keys[0])
        assert table is not None, "offered"
        outer = self._side(0)
        # The inner rows come to where the outer ones are, whatever their conditions would say of their place.
        notes, aims = list(builder.notes), self._lowering.aims
        self._lowering.aims = False
        inner = self._side(1)
        builder.notes, self._lowering.aims = notes, aims
        inner.place, inner.target = outer.place, outer.target
        self._keys = [[pair[at] for pair in table.keys] for at in (0, 1)]
        hashed = outer.hashed
        fragment = self._paired([outer, inner], "Index")
        fragment.hashed = hashed
        by = ", ".join(table.scan.keys)
        self._note(
            FETCH, f"for each outer row the rows of {table.scan.table} with its {by} are fetched", choice
        )
        return fragment

    def _eddy(self, choice: Choice) -> Fragment:
        return eddies.join(self._lowering, self._join, self._needed)

    def _hierarchical(self, choice: Choice) -> Fragment:
        builder = self._builder
        paths, sides = [], []
        for side, fragment in enumerate(self._sides()):
            columns = fragment.columns
            namespace, path = builder.namespace("way"), builder.name("path")
            builder.send(fragment, namespace, self._keys[side])
            taken = builder.source(EVERYWHERE, "passing", "scan", "DHTMessage", ns=namespace, path=path)
            taken.columns = None if columns is None else [*columns, path, f"{path}.id"]
            paths.append(path)
            sides.append(taken)
        marks = [*paths, *(f"{path}.id" for path in paths)]
        self._needed += marks
        fragment = self._paired(sides)
        pair = builder.name("pair")
        builder.add(fragment, "unmet", "selection", "Unmet", left=paths[0], right=paths[1], pair=pair)
        columns = fragment.columns
        if columns is not None:
            columns = [name for name in columns if name not in marks]
            fragment.columns = [*columns, pair]
        fragment = builder.gather(fragment)
        builder.add(fragment, "once", "dupelim", "Basic", columns=Array((pair,)))
        if columns is not None:
            fragment = builder.project(fragment, {name: Field(name) for name in columns})
        self._note(
            HIERARCHICAL,
            "rows travel hop by hop to the owners of their keys and are joined on the way",
            choice,
        )
        return fragment

    def _nested(self, choice: Choice) -> Fragment:
        builder = self._builder
        if not self._join.keys:
            self._keys = [[_ONE], [_ONE]]
        sides = self._sides()
        if self._together_already(sides):
            return self._paired(sides)
        stays = self._staying(sides)
        if stays is None:
            self._note(NESTED, "all rows are joined at the node that was asked", choice)
            return self._paired(builder.meet_at_one(sides))
        hashed = sides[stays].hashed
        place = {stays: "near", 1 - stays: "all"}
        sides = [builder.exchange(each, place[at]) for at, each in enumerate(sides)]
        which = ("left", "right")[1 - stays]
        self._note(NESTED, f"{which} rows go to every owner, the others stay", choice)
        fragment = self._paired(sides, first=self._first())
        fragment.hashed = hashed
        return fragment

    def _staying(self, sides: Sequence[Fragment]) -> int | None:
        """The side whose rows stay where they are, spread over the nodes; none when all must meet at one node."""
        kind = self._join.kind
        fit = [side for side, kinds in ((0, (INNER, LEFT, SEMI, ANTI)), (1, (INNER, RIGHT))) if kind in kinds]
        fit = [side for side in fit if not sides[side].single]
        if len(fit) == 2:
            left, right = size_of(self._join.left), size_of(self._join.right)
            if left is not None and right is not None and left.bytes < right.bytes:
                return 1
        return fit[0] if fit else None

    # -- pairs

    def _outputs(self, sides: Sequence[list[str] | None]) -> tuple[dict[str, Setting], list[str] | None]:
        """The condition on pairs and the columns that leave, as settings of a join; and those columns."""
        join = self._join
        settings: dict[str, Setting] = {} if join.condition is None else {"where": join.condition}
        used = {*self._needed, *(fields_of(join.condition) if join.condition is not None else ())}
        columns: list[str] | None = []
        for setting, side in zip(("leftcolumns", "rightcolumns"), sides, strict=True):
            if side is None:
                columns = None
            else:
                # The join's condition sees the columns of its result.
                kept = [name for name in side if name in used]
                settings[setting] = Array(tuple(kept))
                settings.update(self._types(setting, kept))
                columns = None if columns is None else [*columns, *kept]
        if columns == [] and sides[0]:
            # Rows without columns cannot be counted: one stays.
            columns = sides[0][:1]
            settings["leftcolumns"] = Array(tuple(columns))
            settings.update(self._types("leftcolumns", columns))
        return settings, sides[0] if join.kind in (SEMI, ANTI) else columns

    def _types(self, setting: str, columns: Sequence[str]) -> dict[str, Setting]:
        """The types of a side's columns, where rows of the other may stay without a partner."""
        side = 0 if setting == "leftcolumns" else 1
        if 1 - side not in _KEPT[self._join.kind] or self._join.kind == ANTI:
            return {}
        texts = type_texts(columns, (self._join.right if side else self._join.left).columns)
        return {f"{setting.removesuffix('columns')}types": Array(tuple(texts))} if any(texts) else {}

    def _paired(
        self, sides: Sequence[Fragment], implementation: str = "SymmetricHash", first: str | None = None
    ) -> Fragment:
        """One operator that makes the pairs of two fragments at the same place."""
        settings, columns = self._outputs([each.columns for each in sides])
        settings = {
            "leftkeys": Array(tuple(self._keys[0])),
            "rightkeys": Array(tuple(self._keys[1])),
            "kind": self._join.kind,
            **({} if first is None else {"first": first}),
            **settings,
        }
        fragment = self._builder.merge(sides, "join", "join", implementation, **settings)
        fragment.columns = columns
        return fragment

    def _first(self) -> str | None:
        """The side that is read to its end before rows of the other are looked up: the smaller one, where nobody sees
        the first results anyway."""
        if not self._lowering.whole or any(isinstance(each, Found) for each in walk(self._join)):
            return None
        first = smaller(self._join.left, self._join.right)
        if first is not None:
            self._builder.note(f"{first} rows of this join are read first: its results are wanted as a whole")
        return first

    def _hashed(self, fragment: Fragment) -> Fragment:
        """Which columns say where a pair is."""
        if fragment.single or fragment.hashed:
            return fragment
        lefts, rights = self._keys
        kind = self._join.kind
        ways = {
            INNER: [lefts, rights],
            LEFT: [lefts],
            SEMI: [lefts],
            ANTI: [lefts],
            RIGHT: [rights],
            FULL: [],
        }
        for keys in ways[kind]:
            fields = tuple(key.name for key in keys if isinstance(key, Field))
            if len(fields) == len(keys):
                fragment.hashed.append(fields)
        return fragment
