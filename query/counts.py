"""Numbers that nodes tell each other: none is negative, none is larger than any count that can be true, and sums of
them stay so. Then nothing that a peer says can break what is made of it: an encoder's 64 bits, or a number in JSON.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

#: Bytes of a query that takes nine petabytes: beyond it a number is nonsense, and one more makes no difference.
COUNT_MAX = (1 << 53) - 1

#: A count as it travels; one that is not such makes its message unreadable.
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=COUNT_MAX)]


def total(*counts: int) -> int:
    """The sum, as far as it is a count."""
    return min(COUNT_MAX, sum(counts))
