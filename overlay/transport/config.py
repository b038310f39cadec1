"""The transport's knobs, each with its trade-off, and presets for the usual networks."""

from __future__ import annotations

from dataclasses import dataclass, replace

#: The largest message, by the product's contract.
MESSAGE_BYTES_MAX = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class TransportConfig:
    """Durations in seconds, sizes in bytes. The default suits the Internet and local networks alike."""

    #: UDP payload of a datagram. 1,200 passes every path in use (as QUIC assumes); larger saves CPU on
    #: networks known to carry it and black-holes on others.
    datagram_bytes_max: int = 1_200
    #: The largest message accepted for sending.
    message_bytes_max: int = MESSAGE_BYTES_MAX

    #: The first timeout, before any round trip was measured. Shorter finds dead peers sooner and repeats
    #: greetings over slow paths.
    timeout_initial_s: float = 0.5
    #: Lower clamp of average + 4 x deviation. Shorter repeats after a mere scheduling hiccup of the peer.
    timeout_min_s: float = 0.05
    #: Upper clamp, of the backed-off timeout too. Longer delays the report of a dead peer.
    timeout_max_s: float = 3.0
    #: Timeouts in a row, without a sign of life, after which a peer is dead and all its messages fail.
    timeouts_max: int = 5
    #: Transmissions of one datagram's content while the peer does answer; beyond, its messages fail. Reached
    #: only where the path eats datagrams of one kind, such as large ones.
    transmissions_max: int = 16

    #: How long a lone acknowledgement waits for something to ride on. Longer saves datagrams; must stay
    #: well below `timeout_min_s`.
    ack_delay_s: float = 0.01
    #: Datagrams that are acknowledged at once, at the end of the batch that brought the last of them.
    ack_every: int = 2

    #: Congestion window at first and at least; RFC 6928 says ten datagrams.
    window_initial_datagrams: int = 10
    window_min_datagrams: int = 2
    #: Congestion window at most. More than the peer's socket buffer only causes loss.
    window_bytes_max: int = 1024 * 1024

    #: Peers remembered. One that has been idle for `dead_after_s()` is forgotten for a new one: by then nothing
    #: it sent can still be under way. When none is, the new one is refused.
    peers_max: int = 8_192
    #: A peer with nothing under way is forgotten after this; talking again costs one round trip more.
    peer_idle_s: float = 300.0
    #: Bytes waiting or under way to one peer, and to all; a message beyond fails at once. Must hold one
    #: message of the largest size.
    backlog_bytes_max: int = 2 * MESSAGE_BYTES_MAX
    backlog_total_bytes_max: int = 16 * MESSAGE_BYTES_MAX
    #: Bytes of half-received large messages from one peer, and from all; a fragment beyond is dropped.
    reassembly_bytes_max: int = 2 * MESSAGE_BYTES_MAX
    reassembly_total_bytes_max: int = 8 * MESSAGE_BYTES_MAX
    #: A half-received message to which nothing is added for this long is dropped.
    reassembly_idle_s: float = 30.0

    def __post_init__(self) -> None:
        assert 576 <= self.datagram_bytes_max <= 65_507, "datagram_bytes_max is outside what UDP carries"
        assert 0 < self.message_bytes_max <= min(self.backlog_bytes_max, self.reassembly_bytes_max)
        assert self.ack_delay_s < self.timeout_min_s <= self.timeout_initial_s <= self.timeout_max_s
        assert self.peer_idle_s > self.dead_after_s(), "a peer may still repeat what it sent"
        assert self.timeouts_max >= 1 and 1 <= self.window_min_datagrams <= self.window_initial_datagrams

    def dead_after_s(self, timeout_s: float | None = None) -> float:
        """How long a peer must be silent, with something under way to it, until every message to it has
        failed. `timeout_s` is the timeout that its round trips give; without it, the longest one."""
        timeout_s = self.timeout_max_s if timeout_s is None else max(timeout_s, self.timeout_min_s)
        return sum(min(timeout_s * (1 << n), self.timeout_max_s) for n in range(self.timeouts_max))


DEFAULT = TransportConfig()
#: One machine or one rack: round trips below a millisecond, socket buffers the only queue.
LOCAL = replace(DEFAULT, timeout_initial_s=0.2, timeout_min_s=0.03, timeout_max_s=1.0)
#: Satellite, mobile, overloaded hosts: patience before despair.
WAN = replace(DEFAULT, timeout_initial_s=1.0, timeout_min_s=0.2, timeout_max_s=5.0, timeouts_max=6)
