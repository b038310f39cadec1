"""Every firewall dialect by name."""

from __future__ import annotations

from pier_node.logs.dialects import (
    asa,
    cef,
    eve,
    fast,
    filterlog,
    firewalld,
    fortinet,
    iptables,
    mikrotik,
    nftables,
    paloalto,
    proxmox,
    ufw,
    unifi,
    vpcflow,
    windows,
    zeek,
    zeekjson,
)
from pier_node.logs.dialects.base import Dialect

_MODULES = (
    iptables,
    ufw,
    nftables,
    firewalld,
    proxmox,
    unifi,
    filterlog,
    windows,
    asa,
    eve,
    fast,
    zeek,
    zeekjson,
    vpcflow,
    fortinet,
    paloalto,
    mikrotik,
    cef,
)

DIALECTS: dict[str, Dialect] = {module.DIALECT.name: module.DIALECT for module in _MODULES}


def dialect_named(name: str) -> Dialect:
    """The caller names one of DIALECTS, or is told which there are."""
    if name not in DIALECTS:
        raise ValueError(f"no firewall dialect {name!r}: it is one of {', '.join(DIALECTS)}")
    return DIALECTS[name]
