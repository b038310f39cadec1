"""Hints: what the author of a query wants of the planner, in a comment behind SELECT.

    SELECT /*+ JOIN(bloom) */ …              all joins of this SELECT by Bloom filters
    SELECT /*+ JOIN(s, fetch) JOIN(hash) */  the join that brings in s by fetching, the others by hash
    SELECT /*+ EDDY */ …                     joins and conditions in an order found while they run

A hint that names no strategy or no table is an error, and so is a strategy that a join cannot use: who gives a hint
wants to know.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from sqlglot import exp

from query.plan_hints import did_you_mean, quoted
from ufl.sql.errors import Refused

#: Strategies for joins (PIER 4.3, CAN 4; `ufl.sql.joins`).
HASH, FETCH, SEMIJOIN, BLOOM, HIERARCHICAL, NESTED = (
    "hash",
    "fetch",
    "semi",
    "bloom",
    "hierarchical",
    "nested",
)
SKEW = "skew"
EDDY = "eddy"
STRATEGIES = (HASH, FETCH, SEMIJOIN, BLOOM, HIERARCHICAL, NESTED, SKEW, EDDY)

_HINT = re.compile(r"\s*(\w+)\s*\(([^()]*)\)\s*,?")
_EDDY = re.compile(r"\s*EDDY\b(?!\s*\()\s*,?", re.IGNORECASE)


@dataclass(slots=True)
class JoinHints:
    """What one SELECT says about its joins."""

    #: For all joins that have none of their own.
    default: str = ""
    #: By the name of the table that a join brings in, in small letters; those used are taken out.
    tables: dict[str, str] = field(default_factory=dict)
    #: Whether conditions, too, are ordered while they run.
    eddy: bool = False

    def of(self, alias: str) -> str:
        return self.tables.pop(alias.lower(), self.default)

    def require_used(self) -> None:
        for alias in self.tables:
            raise Refused(
                f"the hint JOIN({alias}, …) names no table that is joined here",
                None,
                "name the table, or its alias, behind JOIN or a comma",
                word=alias,
            )


def join_hints(node: exp.Expr) -> JoinHints:
    """The hints in the comments of a SELECT."""
    hints = JoinHints()
    for comment in node.comments or ():
        if comment.startswith("+"):
            _read(comment[1:], hints)
    return hints


def _read(text: str, hints: JoinHints) -> None:
    at = 0
    while text[at:].strip():
        if found := _EDDY.match(text, at):
            hints.eddy, hints.default = True, hints.default or EDDY
            at = found.end()
            continue
        match = _HINT.match(text, at)
        if match is None or match.group(1).upper() != "JOIN":
            word = text[at:].split()[0]
            raise Refused(f"{quoted(word)} is no hint", None, "for example /*+ JOIN(bloom) */", word=word)
        words = [word.strip() for word in match.group(2).split(",")]
        if len(words) > 2:
            raise Refused(
                "a hint names a table and a strategy", None, "JOIN(s, bloom)", word=match.group(0).strip()
            )
        strategy = words[-1].lower()
        if strategy not in STRATEGIES:
            known = "there is " + ", ".join(STRATEGIES)
            raise Refused(
                f"there is no way to join called {quoted(words[-1])}",
                None,
                did_you_mean(strategy, STRATEGIES, known),
                word=words[-1],
            )
        if len(words) == 2:
            hints.tables[words[0].strip('"').lower()] = strategy
        else:
            hints.default = strategy
        at = match.end()
