"""The table of functions: name, signature, documentation, and how a call is bound to its arguments.

The compiler looks names up here; the documentation is printed from here; a test checks each entry
against the oracle. A binder gets the name it was called by and the compiled arguments, checks the types,
and returns the node that computes the call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from query.expr.errors import TypeClash, UnknownFunction, shown, suggestion
from query.expr.nodes import Node

Binder = Callable[[Sequence[Node]], Node]


@dataclass(frozen=True, slots=True)
class FunctionSpec:
    name: str
    family: str
    #: `(x, y) -> long`, as the documentation shows it.
    signature: str
    doc: str
    bind: Binder
    aliases: tuple[str, ...] = ()
    #: Fewest and most arguments; None is any number.
    least: int = 0
    most: int | None = None


_by_name: dict[str, FunctionSpec] = {}
_specs: dict[str, FunctionSpec] = {}


def function(
    name: str,
    family: str,
    signature: str,
    doc: str,
    *,
    args: tuple[int, int | None],
    aliases: Sequence[str] = (),
) -> Callable[[Binder], Binder]:
    """Registers the decorated binder under `name` and `aliases`."""

    def register(bind: Binder) -> Binder:
        spec = FunctionSpec(name, family, signature, doc, bind, tuple(aliases), args[0], args[1])
        for known in (name, *aliases):
            assert known not in _by_name, f"function {known} is registered twice"
            _by_name[known] = spec
        _specs[name] = spec
        return bind

    return register


def functions() -> tuple[FunctionSpec, ...]:
    """Every function once, in the order of its family's module."""
    return tuple(_specs.values())


def lookup(name: str) -> FunctionSpec:
    spec = _by_name.get(name) or _by_name.get(name.lower())
    if spec is None:
        raise UnknownFunction(f"unknown function {shown(name)}{suggestion(name.lower(), _by_name)}")
    return spec


def bind(name: str, args: Sequence[Node]) -> Node:
    """The node of a call; raises UnknownFunction or TypeClash."""
    spec = lookup(name)
    if len(args) < spec.least or (spec.most is not None and len(args) > spec.most):
        raise TypeClash(f"{spec.name}{spec.signature} was given {len(args)} arguments")
    return spec.bind(args)
