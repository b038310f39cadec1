"""Address blocks: how many peers of one network stand in a routing table.

Whoever runs many nodes on one network could otherwise come to stand in most cells of many tables (an eclipse).
Ids are certified, so it cannot choose cells, but it can fill them by number; a cap bounds its share by the number of
networks it has.
"""

from __future__ import annotations

from ipaddress import AddressValueError, IPv6Address

from runtime.api import Address

#: Leading bits that make an IPv6 block: what one site usually gets.
IPV6_BITS = 48


def block_of(address: Address) -> str:
    """The /24 of an IPv4 address, the /48 of an IPv6 one; empty for what is neither, as in simulations."""
    host = address.rpartition(":")[0]
    if host.startswith("["):
        try:
            number = int(IPv6Address(host[1:-1].partition("%")[0]))
        except AddressValueError:
            return ""
        return f"{number >> (128 - IPV6_BITS):x}/{IPV6_BITS}"
    network, dot, _ = host.rpartition(".")
    return network if dot and network.count(".") == 2 else ""


class Blocks:
    """Counts peers by block, up to a cap; without a cap it counts nothing."""

    __slots__ = ("_counts", "nodes_max", "refused")

    def __init__(self, nodes_max: int) -> None:
        self.nodes_max = nodes_max
        #: Peers that found their cell free but their block full.
        self.refused = 0
        self._counts: dict[str, int] = {}

    def has_room(self, address: Address, instead_of: Address | None = None) -> bool:
        """Whether one more peer may come in, perhaps in place of another."""
        if not self.nodes_max:
            return True
        block = block_of(address)
        if not block or (instead_of is not None and block_of(instead_of) == block):
            return True
        return self._counts.get(block, 0) < self.nodes_max

    def add(self, address: Address) -> None:
        if self.nodes_max and (block := block_of(address)):
            self._counts[block] = self._counts.get(block, 0) + 1

    def remove(self, address: Address) -> None:
        if self.nodes_max and (block := block_of(address)):
            self._counts[block] -= 1
            if not self._counts[block]:
                del self._counts[block]
