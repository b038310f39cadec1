"""Which nodes a plan is meant for, for people who read it: the owners of its keys, looked up in the ring."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from overlay.ring import routing_id
from overlay.router import Owner, Router
from query.engine.aim import keys_of
from query.plan import Plan

#: Keys whose owners are looked up for one plan.
KEYS_SHOWN = 16
_UNKNOWN = "nobody could be found"


def with_owners(router: Router, text: str, plan: Plan, done: Callable[[str], None]) -> None:
    """The text of a plan with a line for each key, behind its first line, that says who owns it now."""
    keys = list(dict.fromkeys(key for opgraph in plan.opgraphs for key in keys_of(opgraph)))[:KEYS_SHOWN]
    found: dict[tuple[str, str], str] = {}

    def looked_up(key: tuple[str, str], owner: Owner | None) -> None:
        found[key] = _UNKNOWN if owner is None else f"node {owner.node.id.hex()[:12]} at {owner.node.address}"
        if len(found) == len(keys):
            first, _, rest = text.partition("\n")
            lines = [f"-- key {key!r} of {namespace}: {found[namespace, key]}" for namespace, key in keys]
            done("\n".join([first, *lines, rest]))

    if not keys:
        done(text)
    for namespace, key in keys:
        point = routing_id(namespace, key)
        if router.owns(point):
            looked_up((namespace, key), Owner(router.me, router.arc()))
        else:
            router.lookup(point, partial(looked_up, (namespace, key)))
