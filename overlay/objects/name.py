"""Storage names: namespace, partitioning key, suffix (PIER 3.2.1), and prefixes of them.

The namespace is a table or an intermediate result, the key what the object is hashed by, the suffix tells
objects under one key apart. Two objects of one name are the same object.
"""

from __future__ import annotations

from typing import NamedTuple


class Name(NamedTuple):
    namespace: str
    key: str
    suffix: str


class Prefix(NamedTuple):
    """Names that begin alike: all of them, one namespace, or one partitioning key of a namespace."""

    namespace: str | None = None
    key: str | None = None

    def matches(self, name: Name) -> bool:
        if self.namespace is None:
            return True
        return name.namespace == self.namespace and (self.key is None or name.key == self.key)


EVERYTHING = Prefix()
