"""Addresses: text as nodes know them, and what sockets take. IPv6 as "[host]:port"; names are not resolved here.

A node that listens on IPv6 reaches IPv4 peers through mapped addresses; node code never sees those.
"""

from __future__ import annotations

import ipaddress
import socket
from typing import TypeAlias

from runtime.api import Address

SockAddr: TypeAlias = tuple[str, int] | tuple[str, int, int, int]
_MAPPED = "::ffff:"


class AddressError(ValueError):
    """The text is not an address; the message says why."""


def split_address(text: Address) -> tuple[str, int]:
    """Host (a name or a number, without brackets) and port."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise AddressError(f"{text!r} is not host:port")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise AddressError(f"{text!r}: an IPv6 host stands in brackets")
    return host, int(port)


def format_address(host: str, port: int) -> Address:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def from_sockaddr(sockaddr: SockAddr) -> Address:
    """The canonical text of what a socket reports."""
    host = sockaddr[0]
    if host.startswith(_MAPPED) and "." in host:
        host = host[len(_MAPPED) :]
    return format_address(host, sockaddr[1])


def family_of(text: Address) -> socket.AddressFamily:
    return socket.AF_INET6 if _ip(text).version == 6 else socket.AF_INET


def to_sockaddr(text: Address, family: socket.AddressFamily) -> SockAddr:
    """For a socket of `family`; raises `AddressError` for names and for what it cannot reach."""
    ip = _ip(text)
    port = split_address(text)[1]
    if family == socket.AF_INET6:
        return (str(ip) if ip.version == 6 else f"{_MAPPED}{ip}", port, 0, 0)
    if ip.version == 6:
        raise AddressError(f"{text!r}: this node listens on IPv4 only")
    return (str(ip), port)


def is_loopback(text: Address) -> bool:
    return _ip(text).is_loopback


def is_wildcard(text: Address) -> bool:
    return _ip(text).is_unspecified


def _ip(text: Address) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    host = split_address(text)[0]
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        raise AddressError(f"{text!r}: {host!r} is not a numeric address") from None
