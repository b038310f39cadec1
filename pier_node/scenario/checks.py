"""What must hold at the end of a run, judged from the figures alone.

A check has a form (its table in the file) and says what it found. The usual one is `figure`: a named figure
lies within bounds. Nested figures are named with dots: `latency_s.p95`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from pier_node.scenario.form import Form
from pier_node.scenario.parse import ScenarioError, convert, split_kind

F = TypeVar("F", bound=Form)
C = TypeVar("C", bound="type[Check[Any]]")
_checks: dict[str, type[Check[Any]]] = {}


class Verdict(msgspec.Struct, frozen=True):
    check: str
    holds: bool
    #: What was found, for the reader of a failure.
    found: str


class Check(ABC, Generic[F]):
    form: ClassVar[type[Form]]

    def __init__(self, values: F) -> None:
        self.values = values

    @abstractmethod
    def judge(self, figures: Mapping[str, Any]) -> Verdict: ...


def register_check(kind: str) -> Callable[[C], C]:
    """Class decorator: scenarios may say `kind = "..."` in [[checks]]."""

    def register(check: C) -> C:
        assert kind not in _checks, f"two checks are called {kind}"
        _checks[kind] = check
        return check

    return register


def make_check(table: Mapping[str, Any], key: str) -> Check[Any]:
    kind, rest = split_kind({"kind": "figure", **table}, key)
    if kind not in _checks:
        raise ScenarioError(f"{key}.kind: there is no check {kind!r}")
    check = _checks[kind]
    return check(convert(rest, check.form, key))


class FigureForm(Form, frozen=True):
    figure: str
    at_least: float | None = None
    at_most: float | None = None
    equals: float | str | bool | None = None


@register_check("figure")
class FigureCheck(Check[FigureForm]):
    form = FigureForm

    def judge(self, figures: Mapping[str, Any]) -> Verdict:
        values = self.values
        found: Any = figures
        for name in values.figure.split("."):
            found = found.get(name) if isinstance(found, Mapping) else None
        holds = isinstance(found, int | float | str)
        if values.at_least is not None:
            holds = holds and not isinstance(found, str) and found >= values.at_least
        if values.at_most is not None:
            holds = holds and not isinstance(found, str) and found <= values.at_most
        if values.equals is not None:
            holds = holds and found == values.equals
        bounds = {"at_least": values.at_least, "at_most": values.at_most, "equals": values.equals}
        wanted = ", ".join(f"{name} {value}" for name, value in bounds.items() if value is not None)
        return Verdict(f"{values.figure} {wanted}".strip(), holds, str(found))
