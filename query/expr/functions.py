"""Loads every family of functions into the registry."""

from query.expr import (
    addresses,
    arithmetic,
    compare,
    formats,
    logic,
    moments,
    numeric,
    patterns,
    texts,
    times,
)

LOADED = (arithmetic, numeric, compare, logic, texts, patterns, times, moments, formats, addresses)
