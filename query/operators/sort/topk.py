"""Sort, TopK: the first rows in order, when the probe ends. An addition to PIER's operators, for ORDER BY with LIMIT.

Keeps about `limit` + `offset` rows, however many come.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from query.dataflow.registry import register
from query.dataflow.settings import Option
from query.operators.sort.basic import Sort
from query.operators.sort.order import KEYS


@register
class TopK(Sort):
    """The first rows in order."""

    IMPLEMENTATION = "TopK"
    OPTIONS: ClassVar[Sequence[Option]] = (
        *KEYS,
        Option("limit", "integer", "how many rows", required=True, least=0, most=1_000_000_000),
        Option(
            "offset",
            "integer",
            "how many rows of the order to leave out first",
            0,
            least=0,
            most=1_000_000_000,
        ),
    )

    def rows_max(self) -> int | None:
        return int(self.options["limit"]) + int(self.options["offset"])

    def offset(self) -> int:
        return int(self.options["offset"])
