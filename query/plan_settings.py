"""Checks of texts, values and settings, and the count of what a plan holds.

Walks expressions with a stack of its own: a plan from a peer may be nested deeper than Python recurses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from query.plan import (
    ARGUMENTS_MAX,
    ITEMS_MAX,
    QUERY_ID,
    QUERY_TIME,
    SETTINGS_MAX,
    TEXT_CHARS_MAX,
    Array,
    Constant,
    Field,
    Function,
    Setting,
    Table,
    Value,
)
from query.plan_hints import quoted
from query.plan_problem import Place, Problem

#: Functions within functions; compilers of expressions recurse a few Python frames a level, of 1,000.
FUNCTION_DEPTH_MAX = 128
#: Values, expressions and objects of one plan together: some 250 MB of memory while it is parsed, at worst.
NODES_MAX = 500_000
#: Array positions never given, in one plan together: `a[65535] = x` is a short text but a long array.
HOLES_MAX = 65_536
#: Query expansions in one plan together; each is one character that grows to the length of an id.
EXPANSIONS_MAX = 10_000
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(slots=True)
class Tally:
    """What the parts of a plan walked so far hold together, counted as its text would be."""

    nodes: int = 0
    holes: int = 0
    expansions: int = 0

    def problems(self) -> Iterator[Problem]:
        if self.nodes > NODES_MAX:
            yield Problem(Place(), f"the query holds more than {NODES_MAX} values and objects (NODES_MAX)")
        if self.holes > HOLES_MAX:
            yield Problem(Place(), f"arrays leave out more than {HOLES_MAX} positions (HOLES_MAX)")
        if self.expansions > EXPANSIONS_MAX:
            yield Problem(Place(), f"more than {EXPANSIONS_MAX} query expansions (EXPANSIONS_MAX)")


def name_problems(name: str, place: Place) -> Iterator[Problem]:
    """Names and keys are texts that mean the same before and after the query is submitted."""
    if expansions_in(name):
        message = "query expansions stand in values, not in names, keys or types"
        yield Problem(place, message)
    yield from text_problems((name,), place, Tally())


def text_problems(texts: Iterable[str], place: Place, tally: Tally) -> Iterator[Problem]:
    """Texts must be short enough and have a wire form (UTF-8)."""
    for text in texts:
        if len(text) > TEXT_CHARS_MAX:
            yield Problem(place, f"a text is longer than {TEXT_CHARS_MAX} characters (TEXT_CHARS_MAX)")
        if text.isascii():
            continue
        tally.expansions += expansions_in(text)
        if _SURROGATE.search(text):
            yield Problem(place, "a text holds half of a surrogate pair")


def expansions_in(text: str) -> int:
    """How many query expansions a text holds."""
    return 0 if text.isascii() else text.count(QUERY_TIME) + text.count(QUERY_ID)


def settings_problems(settings: Mapping[str, Setting], place: Place, tally: Tally) -> Iterator[Problem]:
    """Problems of an object's settings."""
    if len(settings) > SETTINGS_MAX:
        yield Problem(place, f"more than {SETTINGS_MAX} settings in one object (SETTINGS_MAX)")
    for key, setting in settings.items():
        here = place.at(key)
        if not key:
            yield Problem(here, "a setting has no key")
        yield from name_problems(key, place.at(key, at_key=True))
        if isinstance(setting, Array):
            yield from _array_problems(setting, place, key, tally)
        elif isinstance(setting, Table):
            yield from _table_problems(setting, place, key, tally)
        else:
            yield from value_problems(setting, here, tally)


def _array_problems(array: Array, place: Place, key: str, tally: Tally) -> Iterator[Problem]:
    tally.nodes += 1
    tally.holes += array.items.count(None)
    if len(array.items) > ITEMS_MAX:
        yield Problem(place.at(key), f"an array of more than {ITEMS_MAX} elements (ITEMS_MAX)")
    if array.items and array.items[-1] is None:
        yield Problem(place.at(key), "the array ends in a position that was never given")
    for number, value in enumerate(array.items):
        if value is not None:
            yield from value_problems(value, place.at(key, number), tally)


def _table_problems(table: Table, place: Place, key: str, tally: Tally) -> Iterator[Problem]:
    # The table and the dummy entry that its text may need.
    tally.nodes += 2
    if len(table.items) > ITEMS_MAX:
        yield Problem(place.at(key), f"a hash table of more than {ITEMS_MAX} entries (ITEMS_MAX)")
    for name, value in table.items.items():
        yield from name_problems(name, place.at(key, name, at_key=True))
        yield from value_problems(value, place.at(key, name), tally)


def value_problems(value: Value, place: Place, tally: Tally) -> Iterator[Problem]:
    """Problems of a plain text or an expression, however deep it is nested."""
    if isinstance(value, str):
        tally.nodes += 1
        yield from text_problems((value,), place, tally)
        return
    stack: list[tuple[Constant | Field | Function, int]] = [(value, 0)]
    while stack:
        node, depth = stack.pop()
        tally.nodes += 1
        if isinstance(node, Constant):
            yield from text_problems((node.text,), place, tally)
            yield from name_problems(node.type, place)
            if not node.type:
                yield Problem(place, f"the constant {quoted(node.text)} has no type")
        else:
            yield from text_problems((node.name,), place, tally)
        if isinstance(node, Function):
            if depth == FUNCTION_DEPTH_MAX:
                yield Problem(place, f"functions nest deeper than {FUNCTION_DEPTH_MAX} (FUNCTION_DEPTH_MAX)")
                return
            if len(node.args) > ARGUMENTS_MAX:
                yield Problem(place, f"a function has more than {ARGUMENTS_MAX} arguments (ARGUMENTS_MAX)")
            stack.extend((argument, depth + 1) for argument in node.args)
