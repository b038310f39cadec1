"""MessageHost: a node's messages over UdpCC. Typed messages in, datagrams out, and back.

The same object runs natively and in packet-level simulation: it knows only the runtime interface. One timer is
armed for the machine's next deadline; completions are callbacks, there is no task anywhere. What is sent
while datagrams are being handled leaves together, acknowledgements on board; once `FLUSH_MESSAGES` wait they leave
at once, so that the peer works while this node does.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from overlay.transport.config import DEFAULT, TransportConfig
from overlay.transport.congestion import CongestionFactory, NewReno
from overlay.transport.identity import Identity
from overlay.transport.keyring import Keyring
from overlay.transport.machine import UdpCC
from overlay.transport.seal import EPOCH_BYTES, NODE_ID_BYTES
from overlay.transport.statistics import Statistics
from overlay.transport.unheeded import Unheeded
from overlay.transport.versions import Versions
from runtime.api import Address, Datagrams, Notice, Runtime, Timer
from runtime.message import Codec, CodecError, Message, NotUnderstood, tag_of

M = TypeVar("M", bound=Message)
#: Messages gathered before they leave without waiting for the end of the batch: three to four datagrams of
#: small messages, about what pays for a system call. Each time within a batch it takes twice as many, to the
#: most that one call carries: the peer has something to do by then.
FLUSH_MESSAGES = 16
FLUSH_MESSAGES_MAX = 256

_log = logging.getLogger(__name__)


class MessageHost:
    """Implements `runtime.api.Messenger`."""

    def __init__(self, runtime: Runtime, codec: Codec, machine: UdpCC) -> None:
        self._runtime = runtime
        self._codec = codec
        self._machine = machine
        self._handlers: dict[type[Message], Callable[[Address, Any], None]] = {}
        self._waiting = 0
        self._flush_at = FLUSH_MESSAGES
        #: The end of what is being done now will flush.
        self._flush_coming = False
        self._timer: Timer | None = None
        self._timer_at = 0.0
        self._closed = False
        self._now = runtime.now
        self._encode = codec.encode
        self._backlogs = machine.backlogs
        self._address = runtime.address
        self._kinds = {kind.__struct_config__.tag: kind for kind in codec.kinds}
        #: Kinds that peers do not understand.
        self._unheeded = Unheeded(runtime)
        self._unheeded_until = self._unheeded.until
        self._handlers[NotUnderstood] = self._told_not_understood
        self._datagrams: Datagrams = runtime.open_datagrams(self._receive)

    def on(self, kind: type[M], handler: Callable[[Address, M], None]) -> None:
        self._handlers[kind] = handler

    def send(self, to: Address, message: Message, notice: Notice | None = None) -> None:
        backlog = self._backlogs.get(to)
        if backlog is None and to == self._address:
            self._runtime.call_later(0.0, self._send_to_self, (message, notice))
            return
        if self._unheeded_until and self._unheeded.refuses(to, type(message)):
            self._machine.counters.refuse("not_understood")
            if notice is not None:
                self._runtime.call_later(0.0, notice, False)
            return
        payload = self._encode(message)
        room = -1 if backlog is None else backlog.room - len(payload) - 2
        if backlog is not None and room >= 0:
            backlog.room = room
            backlog.payloads.append(payload)
            if notice is not None:
                backlog.tokens.append(notice)
        elif self._closed:
            if notice is not None:
                self._runtime.call_later(0.0, notice, False)
            return
        else:
            self._machine.send(self._now(), to, payload, notice)
        waiting = self._waiting = self._waiting + 1
        if waiting >= self._flush_at:
            self._flush_whole()
        if not self._flush_coming:
            self._flush_coming = True
            self._runtime.call_later(0.0, self._flush_later, None)

    def _send_to_self(self, item: tuple[Message, Notice | None]) -> None:
        message, notice = item
        handler = self._handlers.get(type(message))
        if handler is None:
            self._drop("unhandled")
        else:
            try:
                handler(self._address, message)
            except Exception:
                self._crashed("handler of %s", type(message).__name__)
        if notice is not None:
            try:
                notice(True)
            except Exception:
                self._crashed("notice of %s", "a message")

    # -- the runtime calls

    def _receive(self, batch: Sequence[tuple[Address, bytes]]) -> None:
        self._machine.receive_datagrams(self._now(), batch)
        self._finish()

    def _handle_timer(self, _: None) -> None:
        self._timer = None
        self._machine.handle_timer(self._now())
        self._finish()

    def _flush_later(self, _: None) -> None:
        self._flush_coming = False
        self._finish()

    def _finish(self) -> None:
        """Hands out what has happened, then sends what that led to."""
        if self._closed:
            return
        outer = self._flush_coming
        self._flush_coming = True
        machine = self._machine
        self._tell()
        if machine.others.news:
            self._say_versions()
        decode, handlers = self._codec.decode, self._handlers
        for address, payloads in machine.take_delivered():
            for payload in payloads:
                try:
                    message = decode(payload)
                except CodecError:
                    self._drop("undecodable")
                    tag = tag_of(payload)
                    self._answer_not_understood(address, tag, malformed=tag in self._kinds)
                    continue
                handler = handlers.get(type(message))
                if handler is None:
                    self._drop("unhandled")
                    self._answer_not_understood(address, tag_of(payload), malformed=False)
                    continue
                try:
                    handler(address, message)
                except Exception:
                    self._crashed("handler of %s", type(message).__name__)
        self._flush_coming = outer
        if not self._closed:
            self._flush()

    def _answer_not_understood(self, to: Address, tag: int, malformed: bool) -> None:
        if tag != NotUnderstood.__struct_config__.tag:
            self.send(to, NotUnderstood(tag, malformed))

    def _told_not_understood(self, sender: Address, told: NotUnderstood) -> None:
        kind = self._kinds.get(told.kind)
        name = kind.__name__ if kind is not None else "unknown"
        counts = self._machine.counters.not_understood
        reason = f"{name} malformed" if told.malformed else name
        counts[reason] = counts.get(reason, 0) + 1
        if kind is None or kind is NotUnderstood or told.malformed:
            return
        if self._unheeded.add(sender, kind):
            _log.warning("%s does not understand messages of the kind %s", sender, name)

    def _say_versions(self) -> None:
        own = self._machine.versions
        for address, versions in self._machine.others.take_news():
            _log.warning("no session with %s: it speaks %s, this node %s", address, versions, own)

    def _tell(self) -> None:
        """Calls the notices that are due."""
        for notices, delivered in self._machine.take_settled():
            for notice in notices:
                try:
                    notice(delivered)
                except Exception:
                    self._crashed("notice of %s", "a message")

    def _crashed(self, what: str, name: str) -> None:
        """A fault of ours that a remote message may have provoked: the node goes on."""
        self._machine.counters.crashes += 1
        _log.exception(what + " failed", name)

    def _drop(self, reason: str) -> None:
        self._machine.counters.drop(reason)

    def _flush_whole(self) -> None:
        """Sends the full datagrams ahead of the rest."""
        self._waiting = 0
        self._flush_at = min(2 * self._flush_at, FLUSH_MESSAGES_MAX)
        send_many = self._datagrams.send_many
        for to, datagrams in self._machine.datagrams_to_send(self._now(), True):
            send_many(to, datagrams)

    def _flush(self) -> None:
        self._waiting = 0
        self._flush_at = FLUSH_MESSAGES
        machine = self._machine
        send_many = self._datagrams.send_many
        for to, datagrams in machine.datagrams_to_send(self._now()):
            send_many(to, datagrams)
        if machine.settled_waiting and not self._flush_coming:
            self._flush_coming = True
            self._runtime.call_later(0.0, self._flush_later, None)
        at = machine.next_timer()
        if at is not None and (self._timer is None or at < self._timer_at):
            if self._timer is not None:
                self._timer.cancel()
            self._timer_at = at
            self._timer = self._runtime.call_later(at - self._now(), self._handle_timer, None)

    # -- the owner's

    def timeout_s(self, to: Address) -> float:
        """After how long without an answer a peer is late, by its round trips."""
        return self._machine.timeout_s(to)

    def peer_id(self, address: Address) -> bytes | None:
        """The node id at an address, once it has been talked to; proven if nodes have identities."""
        return self._machine.peer_id(address)

    def use_keyring(self, keyring: Keyring) -> None:
        self._machine.use_keyring(keyring)

    @property
    def keys_held(self) -> int:
        """Keys that open what arrives; none without a ring."""
        return self._machine.keys.count

    @property
    def seals_with(self) -> bytes:
        """The id of the key that seals; empty without a ring."""
        return self._machine.keys.sealing_id if self._machine.keys.count else b""

    def revoke(self, node_ids: frozenset[bytes]) -> None:
        """Shuts nodes out; what is under way to them fails."""
        self._machine.revoke(node_ids)
        self._tell()

    def is_revoked(self, node_id: bytes) -> bool:
        return self._machine.is_revoked(node_id)

    def statistics(self) -> Statistics:
        return self._machine.statistics()

    def close(self) -> None:
        """Fails what is not settled, tells its senders, and closes the socket."""
        if self._closed:
            return
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._machine.close()
        self._tell()
        self._datagrams.close()


def open_messenger(
    runtime: Runtime,
    codec: Codec,
    config: TransportConfig = DEFAULT,
    keyring: Keyring | None = None,
    *,
    identity: Identity | None = None,
    node_id: bytes | None = None,
    make_control: CongestionFactory = NewReno,
    release: str = "",
) -> MessageHost:
    """A node's messenger. The node id follows from `identity`; without one it is `node_id`, or drawn. `release` is what
    peers are told of this node's version beside the versions it speaks."""
    rng = runtime.rng("transport")
    if identity is not None:
        node_id = identity.node_id
    machine = UdpCC(
        node_id=node_id if node_id is not None else rng.randbytes(NODE_ID_BYTES),
        epoch=rng.randbytes(EPOCH_BYTES),
        keyring=keyring,
        identity=identity,
        config=config,
        make_control=make_control,
        versions=Versions(release=release),
    )
    return MessageHost(runtime, codec, machine)
