"""A decimal becomes the double that is nearest to it, so that `price = 2.8` finds what was stored as 2.8."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from query.expr.casts import cast
from query.expr.nodes import Literal


@given(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**12), max_value=10**12, places=6))
@example(Decimal("2.8"))
@example(Decimal("-39.98"))
@example(Decimal("12345678901234567890.123456"))
def test_decimals_become_the_nearest_floats(value: Decimal) -> None:
    for kind in (pa.decimal128(38, 6), pa.decimal128(18, 6) if abs(value) < 10**12 else pa.decimal128(38, 6)):
        literal = Literal(pa.scalar(value, kind))
        wide, narrow = cast(literal, pa.float64()).constant, cast(literal, pa.float32()).constant
        assert wide is not None and narrow is not None
        assert wide.as_py() == float(value)
        assert narrow.as_py() == float(np.float32(float(value)))
    if abs(value) < 10**9:
        short = cast(Literal(pa.scalar(value, pa.decimal128(15, 6))), pa.float64()).constant
        assert short is not None
        assert short.as_py() == float(value)
