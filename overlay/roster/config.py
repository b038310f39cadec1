"""The roster's knobs, each with its trade-off."""

from __future__ import annotations

from dataclasses import dataclass

#: A week: longer than a long weekend, so that a host that died on its first day is still missed on Monday.
KEEP_S = 7 * 86_400.0


@dataclass(frozen=True, slots=True)
class RosterConfig:
    #: How long a member that is gone is remembered: one that vanished is expected, and answers that lack it are
    #: partial, until it is back, is retired (`pier members retire`), or this time has passed. Longer misses hosts for
    #: longer, shorter forgives sooner what nobody has looked at.
    keep_s: float = KEEP_S
    #: Members remembered, gone ones included; beyond, the longest gone make room, and then newcomers are refused and
    #: counted. Some 500 bytes each.
    members_max: int = 16_384
    #: How often a node compares its copy with a random neighbour's: one message of a few bytes where both are
    #: the same. Shorter finds missed news sooner.
    period_s: float = 60.0
    #: The same while there is news: some rounds at this period carry it to everybody.
    news_period_s: float = 2.0
    #: How often a node looks whether members are missing beside it; who is missing twice in a row is noted as absent.
    review_period_s: float = 5.0
