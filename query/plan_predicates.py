"""Checks of an operator's predicates: what each kind needs, and that and-or trees end.

Members are named, so two predicates could contain each other, or a few could stand for billions when
written out. Neither passes: whoever compiles predicates may expand every member where it is named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from query.plan import ITEMS_MAX, Predicate
from query.plan_hints import did_you_mean, quoted
from query.plan_problem import Place, Problem
from query.plan_settings import Tally, value_problems

PREDICATE_TYPES = ("and", "or", "atomic")
#: Comparison operators by their names in Appendix A; plans hold the symbols.
OP_SYMBOLS = {
    "equals": "=",
    "notequals": "!=",
    "greaterthan": ">",
    "greaterthanequals": ">=",
    "lessthan": "<",
    "lessthanequals": "<=",
}
OPS = tuple(OP_SYMBOLS.values())
#: Settings of a predicate object, all of them kept as attributes.
PREDICATE_KEYS = ("type", "op", "leftexpression", "rightexpression", "predicates")
#: And within or within and: as deep as a compiler may recurse.
PREDICATE_DEPTH_MAX = 128
#: Atomic predicates that one predicate stands for when its members are written out.
PREDICATE_LEAVES_MAX = 65_536


def predicates_problems(predicates: Sequence[Predicate], place: Place, tally: Tally) -> Iterator[Problem]:
    """Problems of the predicates of one operator."""
    names = {predicate.name: number for number, predicate in enumerate(predicates)}
    sound = True
    for number, predicate in enumerate(predicates):
        # The predicate, its type, its comparison, the array of its members, and each of them.
        tally.nodes += 4 + len(predicate.members)
        here = place.in_predicate(number)
        problems = _atomic_problems if predicate.type == "atomic" else _combined_problems
        for problem in (*problems(predicate, here, tally), *_member_problems(predicate, names, here)):
            sound = False
            yield problem
    if sound:
        yield from _expansion_problems(predicates, names, place)


def _atomic_problems(predicate: Predicate, place: Place, tally: Tally) -> Iterator[Problem]:
    name = quoted(predicate.name)
    if not predicate.op:
        yield Problem(place, f"the atomic predicate {name} has no op", 'for example op = "="')
    elif predicate.op not in OPS:
        yield Problem(
            place.at("op"),
            f"there is no comparison {quoted(predicate.op)}",
            did_you_mean(predicate.op, OP_SYMBOLS, "use one of " + " ".join(OPS)),
        )
    for key, side in (("leftexpression", predicate.left), ("rightexpression", predicate.right)):
        if side is None:
            yield Problem(place, f"the atomic predicate {name} has no {key}", f"for example {key} = $src")
        else:
            yield from value_problems(side, place.at(key), tally)
    if predicate.members:
        yield Problem(
            place.at("predicates"),
            f"the atomic predicate {name} holds other predicates",
            "only and and or combine predicates",
        )


def _combined_problems(predicate: Predicate, place: Place, tally: Tally) -> Iterator[Problem]:
    name = quoted(predicate.name)
    if not predicate.type:
        yield Problem(place, f"the predicate {name} has no type", "give it type = atomic, and, or or")
        return
    if predicate.type not in PREDICATE_TYPES:
        known = "the types are " + ", ".join(PREDICATE_TYPES)
        message = f"there is no predicate type {quoted(predicate.type)}"
        yield Problem(place.at("type"), message, did_you_mean(predicate.type, PREDICATE_TYPES, known))
        return
    if not predicate.members:
        message = f"the predicate {name} of type {predicate.type} combines nothing"
        yield Problem(place, message, "name its members: predicates[0] = …")
    given = {"op": predicate.op, "leftexpression": predicate.left, "rightexpression": predicate.right}
    for key, value in given.items():
        if value:
            message = f"{key} belongs to an atomic predicate, and {name} is of type {predicate.type}"
            yield Problem(place.at(key, at_key=True), message)


def _member_problems(predicate: Predicate, names: Mapping[str, int], place: Place) -> Iterator[Problem]:
    if len(predicate.members) > ITEMS_MAX:
        yield Problem(place.at("predicates"), f"more than {ITEMS_MAX} members (ITEMS_MAX)")
    for number, member in enumerate(predicate.members):
        if member not in names:
            hint = did_you_mean(member, names, "members are predicates of the same operator")
            message = f"there is no predicate {quoted(member)} in this operator"
            yield Problem(place.at("predicates", number), message, hint)


def _expansion_problems(
    predicates: Sequence[Predicate], names: Mapping[str, int], place: Place
) -> Iterator[Problem]:
    """Depth and leaves of every predicate, each computed once, after those of its members."""
    depths: dict[int, int] = {}
    leaves: dict[int, int] = {}
    entered: set[int] = set()
    stack = list(reversed(range(len(predicates))))
    while stack:
        number = stack[-1]
        if number in depths:
            stack.pop()
            continue
        members = [names[member] for member in predicates[number].members]
        waiting = [member for member in members if member not in depths]
        if number not in entered:
            entered.add(number)
            if any(member in entered for member in waiting):
                message = f"the predicate {quoted(predicates[number].name)} contains itself"
                yield Problem(place.in_predicate(number), message, "and and or must end in atomic predicates")
                return
            stack.extend(waiting)
            continue
        depths[number] = 1 + max((depths[member] for member in members), default=0)
        leaves[number] = sum(leaves[member] for member in members) or 1
        if depths[number] > PREDICATE_DEPTH_MAX:
            message = f"predicates nest deeper than {PREDICATE_DEPTH_MAX} (PREDICATE_DEPTH_MAX)"
            yield Problem(place.in_predicate(number), message)
            return
        if leaves[number] > PREDICATE_LEAVES_MAX:
            message = f"written out, the predicate holds more than {PREDICATE_LEAVES_MAX} comparisons"
            yield Problem(place.in_predicate(number), f"{message} (PREDICATE_LEAVES_MAX)")
            return
        stack.pop()
