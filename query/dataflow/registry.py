"""Operators by the names a query uses for them: type and implementation (PIER Table 3.3)."""

from __future__ import annotations

from typing import TypeVar

from query.dataflow.operator import Operator

_BY_NAME: dict[tuple[str, str], type[Operator]] = {}
#: What a type with several implementations means when a query names none.
DEFAULTS = {
    "cache": "MemCache",
    "groupby": "Basic",
    "join": "SymmetricHash",
    "null": "Null",
    "projection": "Basic",
    "put": "DHT",
    "result": "NetSend",
    "scan": "DHT",
    "selection": "Basic",
    "sort": "Basic",
}

O = TypeVar("O", bound=type[Operator])  # noqa: E741


def register(kind: O) -> O:
    """Class decorator: makes an operator known."""
    key = (kind.TYPE.lower(), kind.IMPLEMENTATION.lower())
    assert key not in _BY_NAME, f"operator registered twice: {key}"
    _BY_NAME[key] = kind
    return kind


def find(type_: str, implementation: str) -> type[Operator] | None:
    """The class for a type and implementation, in any case; an empty implementation means the default."""
    if not implementation:
        known = implementations(type_)
        implementation = known[0] if len(known) == 1 else DEFAULTS.get(type_.lower(), "")
    return _BY_NAME.get((type_.lower(), implementation.lower()))


def implementations(type_: str) -> list[str]:
    return [kind.IMPLEMENTATION for (name, _), kind in _BY_NAME.items() if name == type_.lower()]


def all_operators() -> list[type[Operator]]:
    return list(_BY_NAME.values())
