"""Names to numbers: what a node binds, advertises and joins must be numeric, people write names.

Join addresses are looked up again while the node is not on the ring, so that a name which moves, or a resolver
that comes up late, does not keep it out for ever.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence

import trio

from pier_node.config.addresses import is_loopback, join_address, split_address
from runtime.api import Address

#: Of one name; a name with more members than this is cut.
ADDRESSES_MAX = 64


class ResolveError(Exception):
    """A name that leads nowhere."""


async def resolve(text: str) -> list[Address]:
    """Every address behind host:port, in the resolver's order."""
    host, port = split_address(text)
    try:
        found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ResolveError(f"{text}: {reason}") from None
    addresses = dict.fromkeys(join_address(str(entry[4][0]), port) for entry in found)
    return list(addresses)[:ADDRESSES_MAX]


async def resolve_one(text: str) -> Address:
    """One address; an IPv4 one where a name has both, because that reaches most."""
    found = await resolve(text)
    return next((address for address in found if not address.startswith("[")), found[0])


async def own_address(bind: Address) -> Address:
    """What a node that listens on every address of its host tells others: where the host's own name leads."""
    host, port = split_address(bind)
    name = socket.gethostname()
    try:
        found = await resolve(join_address(name, port))
    except ResolveError:
        found = []
    usable = [each for each in found if not is_loopback(split_address(each)[0])]
    fitting = [each for each in usable if each.startswith("[") == (":" in host)] or usable
    if not fitting:
        raise ResolveError(
            f"node.listen is {bind}, and the host's own name, {name}, leads nowhere that others can reach; "
            "say with node.advertise (--advertise) which address other nodes shall use"
        )
    return fitting[0]


async def resolve_members(texts: Sequence[str]) -> tuple[list[Address], list[str]]:
    """The members behind all names, and what could not be resolved."""
    members: dict[Address, None] = {}
    problems: list[str] = []
    for text in texts:
        try:
            members.update(dict.fromkeys(await resolve(text)))
        except ResolveError as error:
            problems.append(str(error))
    return list(members), problems
