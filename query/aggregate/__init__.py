"""Aggregates by add, combine and result, over columns (PIER 4.2). See `aggregate.py` and `grouping.py`."""

from query.aggregate.aggregate import Aggregate, Call
from query.aggregate.grouping import Grouping, Mode
from query.aggregate.registry import AGGREGATES, find, make, register

__all__ = ["AGGREGATES", "Aggregate", "Call", "Grouping", "Mode", "find", "make", "register"]
