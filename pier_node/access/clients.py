"""A client as a node knows it once its token is heard: its name, its roles and what they allow.

    ask         queries, EXPLAIN, tables, objects; sees and cancels its own queries
    publish     rows and objects into the namespaces its token names
    administer  everything, everybody's queries included

A node that wants no token has one kind of client, `ANYONE`, who administers: whoever reaches the port of such
a node is on its machine. Namespaces that begin with `pier.` are the system's own: only an administrator writes
there, whatever a token's patterns match.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal, TypeAlias, get_args

from pier_node.protocol.messages import Limits

Role: TypeAlias = Literal["ask", "publish", "administer"]
ROLES: tuple[Role, ...] = get_args(Role)
#: What only the system and administrators write to.
SYSTEM_PREFIX = "pier."


@dataclass(frozen=True, slots=True)
class Client:
    """Whom a session serves. An empty name: nobody asked for a token."""

    name: str
    roles: frozenset[Role]
    #: Patterns (`fw`, `sensors.*`) of the namespaces that `publish` allows.
    namespaces: tuple[str, ...] = ()
    #: The most its queries may ask for; None leaves it to the node.
    limits: Limits = field(default_factory=Limits)

    @property
    def administers(self) -> bool:
        return "administer" in self.roles

    @property
    def asks(self) -> bool:
        return self.administers or "ask" in self.roles

    def publishes_into(self, namespace: str) -> bool:
        if self.administers:
            return True
        if "publish" not in self.roles or namespace.startswith(SYSTEM_PREFIX):
            return False
        return any(fnmatchcase(namespace, pattern) for pattern in self.namespaces)


ANYONE = Client("", frozenset({"administer"}))
