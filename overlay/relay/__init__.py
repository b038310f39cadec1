"""Messages to a peer that this node cannot reach itself, through a third that reaches both."""

from overlay.relay.messages import RELAY_MESSAGES
from overlay.relay.messenger import Relays
from overlay.relay.statistics import RelayStatistics

__all__ = ["RELAY_MESSAGES", "RelayStatistics", "Relays"]
