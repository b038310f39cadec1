"""Messages between nodes: congestion-controlled, sealed, with a delivery-or-failure notice (UdpCC)."""

from overlay.transport.config import DEFAULT, LOCAL, WAN, TransportConfig
from overlay.transport.host import MessageHost, open_messenger
from overlay.transport.identity import Authority, Identity
from overlay.transport.keyring import Keyring, KeyringError
from overlay.transport.statistics import Statistics

__all__ = [
    "DEFAULT",
    "LOCAL",
    "WAN",
    "Authority",
    "Identity",
    "Keyring",
    "KeyringError",
    "MessageHost",
    "Statistics",
    "TransportConfig",
    "open_messenger",
]
