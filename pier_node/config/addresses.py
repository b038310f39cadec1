"""Addresses as people write them: "host:port", IPv6 as "[host]:port", a port alone, a host alone."""

from __future__ import annotations

import ipaddress

PORT_MAX = 65_535


class AddressError(ValueError):
    """Not an address; the message says what one looks like."""


def split_address(text: str, default_port: int | None = None) -> tuple[str, int]:
    """Host and port. An IPv6 host loses its brackets."""
    host, colon, port_text = text.rpartition(":")
    if text.startswith("[") and text.endswith("]"):
        host, colon, port_text = text, "", ""
    elif not colon:
        host, port_text = text, ""
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise AddressError(f"{text!r}: write an IPv6 address in brackets, as in [::1]:7700")
    if not host:
        raise AddressError(f"{text!r} has no host; write host:port, as in 127.0.0.1:7700")
    if not port_text:
        if default_port is None:
            raise AddressError(f"{text!r} has no port; write host:port, as in 127.0.0.1:7700")
        return host, default_port
    if not port_text.isascii() or not port_text.isdigit() or int(port_text) > PORT_MAX:
        raise AddressError(f"{text!r}: {port_text!r} is not a port (0 to {PORT_MAX})")
    return host, int(port_text)


def join_address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    """Whether an address, as written, can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
