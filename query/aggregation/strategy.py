"""The names of the algorithms, and what they stand for: five dimensions (PIER Figures 4.1 and 4.5 to 4.7).

routing    IP      to a root whose address the query has
           DHT     to the owner of the query's root id
           Tree    as DHT, then by redirects to a tree of bounded in-degree
structure  1L      every node's state goes to the root itself (DHT: by put)
           ML      hop by hop, each state passed on as it is
           Hi      hop by hop, combined at each
dynamism   S       the first next hop is kept until it fails; without, the overlay chooses anew each time
timing     Optimal   when all that will come has come: the root knows the number of nodes, or (Hi) a node
                     knows its children from the query's dissemination
           Timeout   some time after something came
           Learned   when all who sent last time have sent
           Topology  as Learned, and a child that was sent elsewhere is not waited for
"""

from __future__ import annotations

import enum
import itertools
import re
from dataclasses import dataclass


class Routing(enum.Enum):
    IP = "IP"
    DHT = "DHT"
    TREE = "Tree"


class Structure(enum.Enum):
    ONE_LEVEL = "1L"
    MULTI_LEVEL = "ML"
    HIERARCHY = "Hi"


class Timing(enum.Enum):
    OPTIMAL = "Optimal"
    TIMEOUT = "Timeout"
    LEARNED = "Learned"
    TOPOLOGY = "Topology"


class UnknownStrategy(ValueError):
    """A name that is no algorithm; the message says why."""


@dataclass(frozen=True, slots=True)
class Strategy:
    """One algorithm."""

    routing: Routing
    structure: Structure
    timing: Timing
    stable: bool = False

    @property
    def name(self) -> str:
        stable = "-S" if self.stable else ""
        return f"{self.routing.value}-{self.structure.value}{stable}-{self.timing.value}"

    @property
    def one_shot(self) -> bool:
        """Whether it is one of the eight of Appendix B, which need no earlier epoch."""
        return (
            self.routing is not Routing.TREE
            and not self.stable
            and self.timing in (Timing.OPTIMAL, Timing.TIMEOUT)
        )

    @property
    def learns(self) -> bool:
        return self.timing in (Timing.LEARNED, Timing.TOPOLOGY)

    @property
    def by_dissemination(self) -> bool:
        """Whether states go by the edges on which the query came."""
        return self.structure is Structure.HIERARCHY and self.timing is Timing.OPTIMAL

    @property
    def keeps_hop(self) -> bool:
        """Whether a node's own next hop takes what others send through it: then each hop looks at every state."""
        return self.stable or self.routing is Routing.TREE

    def problem(self) -> str:
        """Why there is no such algorithm; empty when there is."""
        one_level = self.structure is Structure.ONE_LEVEL
        if self.routing is Routing.IP and not one_level:
            return "IP routing knows one root and has one level (1L)"
        if self.routing is Routing.TREE and one_level:
            return "Tree routing has several levels (ML or Hi)"
        if self.stable and one_level:
            return "with one level (1L) there is no next hop to keep (S)"
        if self.timing is Timing.TOPOLOGY and (
            self.routing is not Routing.TREE or self.structure is not Structure.HIERARCHY
        ):
            return "Topology timing is about children that were sent elsewhere, which only Tree-Hi waits for"
        if self.by_dissemination and self.routing is Routing.TREE:
            return (
                "a node cannot know which children redirects will give it; Topology is as near as one comes"
            )
        return ""


_NAME = re.compile(r"(IP|DHT|Tree)-(1L|ML|Hi)(-S)?-(Optimal|Timeout|Learned|Topology)\Z", re.IGNORECASE)


def parse(name: str) -> Strategy:
    """The algorithm of that name, in small letters or capitals. Raises UnknownStrategy."""
    found = _NAME.match(name)
    if found is None:
        raise UnknownStrategy(
            f"{name[:40]!r} is no algorithm; names are like DHT-Hi-Optimal or Tree-Hi-S-Topology"
        )
    lower = name.lower()
    for strategy in CONTINUOUS:
        if strategy.name.lower() == lower:
            return strategy
    routing, structure, stable, timing = found.groups()
    strategy = Strategy(
        next(each for each in Routing if each.value.lower() == routing.lower()),
        next(each for each in Structure if each.value.lower() == structure.lower()),
        next(each for each in Timing if each.value.lower() == timing.lower()),
        stable is not None,
    )
    raise UnknownStrategy(f"there is no {strategy.name}: {strategy.problem()}")


def _all() -> tuple[Strategy, ...]:
    every = (Strategy(*each) for each in itertools.product(Routing, Structure, Timing, (False, True)))
    return tuple(each for each in every if not each.problem())


#: Every algorithm for continuous queries, and the eight of them that one-shot queries can use.
CONTINUOUS = _all()
ONE_SHOT = tuple(each for each in CONTINUOUS if each.one_shot)
DEFAULT_ONE_SHOT = Strategy(Routing.DHT, Structure.HIERARCHY, Timing.OPTIMAL)
DEFAULT_CONTINUOUS = Strategy(Routing.TREE, Structure.HIERARCHY, Timing.TOPOLOGY, stable=True)
