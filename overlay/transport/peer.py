"""All that a node holds about one peer: session, sending half, receiving half, greeting in progress."""

from __future__ import annotations

from overlay.transport.config import TransportConfig
from overlay.transport.congestion import CongestionFactory
from overlay.transport.inbound import Inbound
from overlay.transport.ledger import Ledger
from overlay.transport.outbound import Outbound
from overlay.transport.seal import Sealer
from overlay.transport.session import Session
from overlay.transport.wire import HAS_ACK, HAS_SEGMENT, IS_FRAGMENT, PACKET, RANGE, U16, U32


class Peer:
    __slots__ = (
        "_config",
        "_ledger",
        "_make_control",
        "address",
        "armed_at",
        "dirty",
        "gone",
        "greet",
        "greeted_at",
        "hello_first",
        "hello_last",
        "inbound",
        "outbound",
        "session",
        "used_at",
    )

    def __init__(
        self, address: str, config: TransportConfig, ledger: Ledger, make_control: CongestionFactory
    ) -> None:
        self.address = address
        self._config = config
        self._ledger = ledger
        self._make_control = make_control
        self.outbound = Outbound(config, ledger, make_control(config))
        self.inbound = Inbound(config, ledger)
        self.session: Session | None = None
        #: Counters of the greetings still open, first and last; 0 for none. When the last one left.
        self.hello_first = self.hello_last = 0
        self.greeted_at = 0.0
        #: A greeting is to be sent.
        self.greet = False
        #: In the machine's list of peers with something to send.
        self.dirty = False
        #: Earliest deadline in the machine's heap; 0 for none.
        self.armed_at = 0.0
        self.used_at = 0.0
        self.gone = False

    @property
    def busy(self) -> bool:
        return self.outbound.busy or self.inbound.pending > 0 or self.hello_first != 0

    def deadline(self) -> float:
        """When something is to be done even if nothing arrives."""
        outbound, inbound = self.outbound, self.inbound
        at = self.used_at + self._config.peer_idle_s
        if outbound.in_flight or self.hello_first:
            at = outbound.timeout_at()
        if 0.0 < outbound.loss_at < at:
            at = outbound.loss_at
        if 0.0 < inbound.ack_at < at:
            at = inbound.ack_at
        if 0.0 < inbound.reassembly.expires_at < at:
            at = inbound.reassembly.expires_at
        return at

    def packets(self, now: float, sealer: Sealer, session: Session, whole: bool) -> list[bytes]:
        """Sealed DATA datagrams: segments as the window allows, with acknowledgements."""
        outbound, inbound = self.outbound, self.inbound
        prefix, binding, seal = session.prefix, session.remote_epoch, sealer.seal
        datagrams: list[bytes] = []
        ack = delay = run = 0
        has_ack = 0
        if inbound.ranges:
            has_ack = HAS_ACK
            ack, delay, run = inbound.ack_fields(now)
            ack &= U32
            if inbound.pending and len(inbound.ranges) > 1:
                ranges = inbound.ack_ranges()
                header = PACKET.pack(HAS_ACK, 0, 0, 0, 0, ack, delay, run, len(ranges) // RANGE.size)
                datagrams.append(seal(prefix, header + ranges, binding))
                inbound.acknowledged()
                self._ledger.counters.acks_alone += 1
        segment = outbound.next_segment(now, whole)
        while segment is not None:
            flags = has_ack | (HAS_SEGMENT if segment.large is None else HAS_SEGMENT | IS_FRAGMENT)
            pn, sn = segment.pn, segment.sn
            span = pn - outbound.pn_low
            header = PACKET.pack(
                flags,
                pn & U32,
                span if span < U16 else U16,
                sn & U32,
                sn - outbound.sn_low,
                ack,
                delay,
                run,
                0,
            )
            datagrams.append(seal(prefix, header + segment.body, binding))
            segment = outbound.next_segment(now, whole)
        if inbound.pending:
            if datagrams:
                inbound.acknowledged()
            elif inbound.urgent or inbound.ack_at <= now:
                header = PACKET.pack(HAS_ACK, 0, 0, 0, 0, ack, delay, run, 0)
                datagrams.append(seal(prefix, header, binding))
                inbound.acknowledged()
                self._ledger.counters.acks_alone += 1
        return datagrams

    def begin(self, session: Session, restarted: bool) -> None:
        """Starts a session. What is under way from an earlier one is sent again when the peer `restarted`,
        and fails otherwise: it may have been delivered."""
        if self.session is not None:
            self.outbound.restart(self._make_control(self._config), restarted)
            if restarted:
                self._ledger.counters.peers_restarted += 1
        self.inbound.close()
        self.inbound = Inbound(self._config, self._ledger)
        self.session = session
        self.outbound.timeouts = 0
        self.end_greeting()

    def end_greeting(self) -> None:
        self.hello_first = 0
        self.greet = False

    def close(self) -> None:
        """Fails all that is not settled."""
        self.gone = True
        self.outbound.fail_all()
        self.inbound.close()
