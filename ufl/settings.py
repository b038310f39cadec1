"""The settings of one object while its text is read: flat, array or hash table, decided by first use.

The parser adds one line at a time; the plan builder asks for the finished setting. Within one key the
shape never changes and no position or key is given twice (Appendix A). Offsets are kept so that a
problem found later, with the plan at hand, can still point at the text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from query.plan import ITEMS_MAX, SETTINGS_MAX, Array, Setting, Table, Value
from query.plan_hints import WORD_CHARS_MAX, quoted
from ufl.errors import Source, UflError
from ufl.limits import Budget
from ufl.literals import is_text_string

FLAT, ARRAY, TABLE, EMPTY = "a single value", "an array", "a hash table", "an empty array"


@dataclass(frozen=True, slots=True)
class Index:
    """What stood between brackets: a word, a quoted text, or nothing."""

    text: str
    start: int
    quoted: bool = False
    missing: bool = False

    @property
    def is_star(self) -> bool:
        return self.text == "*" and not self.quoted

    @property
    def is_number(self) -> bool:
        return self.text.isdigit() and not self.quoted

    @property
    def is_negative(self) -> bool:
        return self.text[:1] == "-" and self.text[1:].isdigit() and not self.quoted


@dataclass(slots=True)
class Flat:
    """A setting without index, and where its key and its value stand in the text."""

    key_start: int
    value: Value
    value_start: int
    shape = FLAT

    def start_of(self, item: int | str | None) -> int:
        return self.value_start


@dataclass(slots=True)
class Indexed:
    """A setting with indexes so far: its values by position or key, and where key and values stand."""

    shape: str
    key_start: int
    items: dict[int | str, Value] = field(default_factory=dict)
    starts: dict[int | str, int] = field(default_factory=dict)
    appended: list[tuple[Value, int]] = field(default_factory=list)
    highest: int = -1

    def start_of(self, item: int | str | None) -> int:
        return self.key_start if item is None else self.starts.get(item, self.key_start)


class SettingsReader:
    """Collects the settings of one object."""

    __slots__ = ("_budget", "_source", "entries")

    def __init__(self, source: Source, budget: Budget) -> None:
        self._source = source
        self._budget = budget
        self.entries: dict[str, Flat | Indexed] = {}

    def add_flat(self, key: str, key_start: int, value: Value, start: int) -> None:
        entry = self.entries.get(key)
        if isinstance(entry, Flat):
            raise self._given_twice(key, entry.key_start, key_start)
        if entry is not None:
            raise self._changed_shape(key, entry, key_start, FLAT)
        self._check_key(key, key_start)
        self.entries[key] = Flat(key_start, value, start)

    def add_empty(self, key: str, key_start: int) -> None:
        """`key = []`."""
        self._budget.spend_node(key_start)
        entry = self.entries.get(key)
        if entry is not None:
            raise self._changed_shape(key, entry, key_start, EMPTY)
        self._check_key(key, key_start)
        self.entries[key] = Indexed(EMPTY, key_start)

    def add_item(self, key: str, key_start: int, index: Index, value: Value, start: int) -> None:
        entry = self.entries.get(key)
        if entry is None:
            entry = self._first_item(key, key_start, index)
        if isinstance(entry, Flat) or entry.shape == EMPTY:
            raise self._changed_shape(key, entry, key_start, "an array or hash table")
        if len(entry.items) + len(entry.appended) >= ITEMS_MAX:
            message = f"{quoted(key)} has more than {ITEMS_MAX} elements (ITEMS_MAX)"
            raise self._source.error(message, key_start)
        if entry.shape == ARRAY:
            self._add_element(key, entry, index, value, start)
        else:
            self._add_entry(key, entry, index, value, start)

    def _first_item(self, key: str, key_start: int, index: Index) -> Indexed:
        self._check_key(key, key_start)
        self._reject_negative(key, index)
        self._budget.spend_node(key_start)
        entry = Indexed(ARRAY if index.missing or index.is_number else TABLE, key_start)
        self.entries[key] = entry
        return entry

    def _check_key(self, key: str, key_start: int) -> None:
        if not key:
            raise self._source.error("a setting has a key", key_start)
        if len(self.entries) == SETTINGS_MAX:
            message = f"more than {SETTINGS_MAX} settings in one object (SETTINGS_MAX)"
            raise self._source.error(message, key_start)

    def _add_element(self, key: str, entry: Indexed, index: Index, value: Value, start: int) -> None:
        if index.missing:
            entry.appended.append((value, start))
            return
        if not index.is_number:
            self._reject_negative(key, index)
            line = self._source.line(entry.key_start)
            message = f"{quoted(key)} is {ARRAY} since line {line}, and this is no number"
            raise self._source.error(message, index.start, hint=_table_hint(key))
        digits = index.text.lstrip("0")
        if len(digits) > len(str(ITEMS_MAX)) or int(digits or "0") >= ITEMS_MAX:
            message = f"array positions end at {ITEMS_MAX - 1} (ITEMS_MAX)"
            raise self._source.error(message, index.start, hint=_table_hint(key))
        position = int(digits or "0")
        self._put(key, entry, position, value, start, index.start)
        entry.highest = max(entry.highest, position)

    def _add_entry(self, key: str, entry: Indexed, index: Index, value: Value, start: int) -> None:
        if index.missing:
            line = self._source.line(entry.key_start)
            message = f"{quoted(key)} is {TABLE} since line {line}, and its entries need keys"
            raise self._source.error(message, index.start)
        if not index.is_star:
            self._put(key, entry, index.text, value, start, index.start)

    def _put(self, key: str, entry: Indexed, item: int | str, value: Value, start: int, at: int) -> None:
        if item in entry.items:
            raise self._given_twice(f"{key}[{item}]", entry.starts[item], at)
        entry.items[item] = value
        entry.starts[item] = start

    def _given_twice(self, name: str, first: int, at: int) -> UflError:
        line = self._source.line(first)
        return self._source.error(f"{quoted(name)} is given twice, first on line {line}", at)

    def _changed_shape(self, key: str, entry: Flat | Indexed, at: int, now: str) -> UflError:
        line = self._source.line(entry.key_start)
        message = f"{quoted(key)} is {entry.shape} since line {line} and cannot become {now}"
        return self._source.error(message, at, hint="the first use of a key decides its shape")

    def _reject_negative(self, key: str, index: Index) -> None:
        if index.is_negative:
            message = "array positions start at zero"
            raise self._source.error(message, index.start, hint=_table_hint(key))

    def take(self, key: str) -> Setting | None:
        """The finished setting, or None if the key was not given."""
        entry = self.entries.get(key)
        return None if entry is None else self._finish(entry)

    def take_all(self, but: Callable[[str], bool]) -> dict[str, Setting]:
        """Every finished setting, except those whose key is wanted elsewhere."""
        return {key: self._finish(entry) for key, entry in self.entries.items() if not but(key)}

    def _finish(self, entry: Flat | Indexed) -> Setting:
        if isinstance(entry, Flat):
            return entry.value
        if entry.shape == TABLE:
            return Table({str(key): value for key, value in entry.items.items()})
        return self._finish_array(entry)

    def _finish_array(self, entry: Indexed) -> Array:
        """Elements at their positions, and those without one after the last, in the order listed."""
        for position, (value, start) in enumerate(entry.appended, entry.highest + 1):
            entry.items[position] = value
            entry.starts[position] = start
        length = entry.highest + 1 + len(entry.appended)
        if length > ITEMS_MAX:
            message = f"the array grows beyond {ITEMS_MAX} elements (ITEMS_MAX)"
            raise self._source.error(message, entry.key_start)
        self._budget.spend_holes(length - len(entry.items), entry.key_start)
        return Array(tuple(entry.items.get(position) for position in range(length)))


def _table_hint(key: str) -> str:
    name = key if is_text_string(key) and len(key) <= WORD_CHARS_MAX else "key"
    return f'for a hash table with numbers among its keys, start with {name}[*] = ""'
