"""A messenger that finds a way around broken paths: messages in from the layers above, straight out or through a third.

On real networks some pairs of hosts cannot reach each other although everybody else reaches both (on PlanetLab up to
2.3 % of the pairs at times). A ring in which two members take each other for dead agrees on nothing. So when a peer is
silent, some neighbours are asked whether they reach it; through the first that does, messages go from then on, in both
directions, and the layers above do not notice but for the time it takes. Found once, the path is remembered; the
straight one is tried now and then.

The notice of a message keeps its meaning: True when the target's transport has acknowledged it, False when it failed
or nobody can say. A peer that is dead is reached through nobody, and so remains dead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

import msgspec

from overlay.relay.awaited import Awaited
from overlay.relay.carrier import Carrier
from overlay.relay.messages import (
    RELAYED_BYTES_MAX,
    DirectTry,
    Relay,
    RelayAsk,
    Relayed,
    RelayFound,
    RelayNotice,
    RelayTried,
    RelayTry,
)
from overlay.relay.paths import RETRY_MAX_S, Path, Paths
from overlay.relay.seeks import Seeks
from overlay.relay.statistics import RelayCounters, RelayStatistics
from runtime.api import Address, Messenger, Notice, Runtime, Timer
from runtime.message import Codec, CodecError, Message, NotUnderstood, tag_of

M = TypeVar("M", bound=Message)

#: Messages whose fate is not known yet; beyond, one that goes around fails at once.
CALLS_MAX = 8_192
#: A message of which nothing was heard for so long has failed: longer than any transport takes to give a peer up.
CALL_S = 20.0


@runtime_checkable
class Identifying(Protocol):
    """A messenger that knows which node it talks to, and whom it must not."""

    def peer_id(self, address: Address) -> bytes | None: ...

    def is_revoked(self, node_id: bytes) -> bool: ...


@dataclass(slots=True, eq=False)
class _Call:
    path: Path
    #: Through whom it went: the path may have another relay by now.
    via: Address
    notice: Notice
    timer: Timer


class Relays:
    """A `Messenger` over another one. `helpers` yields neighbours to ask; who owns this sets it."""

    __slots__ = (
        "_address",
        "_awaited",
        "_call",
        "_calls",
        "_carrier",
        "_codec",
        "_counters",
        "_encode",
        "_handlers",
        "_messenger",
        "_paths",
        "_rng",
        "_runtime",
        "_seeks",
        "_who",
        "found",
        "helpers",
    )

    def __init__(self, runtime: Runtime, messenger: Messenger) -> None:
        self._runtime = runtime
        self._messenger = messenger
        self._address = runtime.address
        self._rng = runtime.rng("relay")
        self._who = messenger if isinstance(messenger, Identifying) else None
        self._handlers: dict[type[Message], Callable[[Address, Any], None]] = {}
        #: Of the kinds that have a handler; made when it is first needed.
        self._codec: Codec | None = None
        self._encode = msgspec.msgpack.Encoder().encode
        self._counters = RelayCounters()
        self._paths = Paths()
        self._seeks = Seeks(self._rng)
        self._awaited = Awaited(runtime, self.seek, self._seeks.end)
        self._call = self._rng.getrandbits(48)
        self._calls: dict[int, _Call] = {}
        self._carrier = Carrier(
            runtime, messenger, self._rng, self._counters, self._paths.indirect, self._id_of
        )
        #: Neighbours that may be asked, those that are silent left out.
        self.helpers: Callable[[], Sequence[Address]] = tuple
        #: Called with each peer that is now reached through another.
        self.found: list[Callable[[Address], None]] = []
        messenger.on(RelayTry, self._tried)
        messenger.on(RelayFound, self._answered)
        messenger.on(Relayed, self._received)
        messenger.on(RelayNotice, self._told)
        messenger.on(DirectTry, self._straight_from)

    # -- the messenger

    def on(self, kind: type[M], handler: Callable[[Address, M], None]) -> None:
        self._handlers[kind] = handler
        self._codec = None
        self._messenger.on(kind, handler)

    def send(self, to: Address, message: Message, notice: Notice | None = None) -> None:
        if self._paths.by_target:
            path = self._paths.get(to, self._runtime.now())
            if path is not None:
                self._send_around(path, message, notice)
                return
        watched = None if notice is None else self._awaited.watch(to, notice)
        self._messenger.send(to, message, watched)

    def _send_around(self, path: Path, message: Message, notice: Notice | None) -> None:
        payload = self._encode(message)
        if len(self._calls) >= CALLS_MAX or len(payload) > RELAYED_BYTES_MAX:
            self._counters.refused_calls += 1
            if notice is not None:
                self._runtime.call_later(0.0, notice, False)
            return
        self._counters.sent += 1
        call = 0
        if notice is not None:
            call = self._call = self._call + 1
            timer = self._runtime.call_later(CALL_S, self._unheard, call)
            self._calls[call] = _Call(path, path.via, notice, timer)
        via = path.via

        def told(arrived: bool) -> None:
            if not arrived:
                self._lose(via)

        self._messenger.send(via, Relay(call, path.to, payload), told)
        if self._runtime.now() >= path.retry_at:
            self._try_straight(path)

    def _unheard(self, call: int) -> None:
        lost = self._calls.get(call)
        if lost is not None:
            if lost.path.via == lost.via:
                self._drop(lost.path)
            self._finish(call, False)

    def _finish(self, call: int, arrived: bool) -> None:
        pending = self._calls.pop(call)
        pending.timer.cancel()
        if not arrived:
            self._counters.failed += 1
        pending.notice(arrived)

    def _told(self, sender: Address, told: RelayNotice) -> None:
        if not told.arrived:
            path = self._paths.by_target.get(told.to)
            if path is not None and path.via == sender:
                self._drop(path)
                self.seek(told.to)
        pending = self._calls.get(told.call)
        if pending is not None and pending.via == sender:
            self._finish(told.call, told.arrived)

    def _lose(self, via: Address) -> None:
        """A relay cannot be reached itself: everything through it fails, and other ways are looked for."""
        for path in self._paths.through(via):
            self._drop(path)
            self.seek(path.to)
        for call in [call for call, pending in self._calls.items() if pending.via == via]:
            if call in self._calls:
                self._finish(call, False)

    def _drop(self, path: Path) -> None:
        if self._paths.forget(path):
            self._counters.lost += 1

    # -- finding a path

    def seek(self, to: Address) -> None:
        """A peer is silent: asks neighbours for a path. Each further call for the same peer asks others. Where there is
        a path already, it may have broken: another is looked for."""
        if to == self._address:
            return
        path = self._paths.by_target.get(to)
        seek = self._seeks.of(to, self._runtime.now())
        if seek is None:
            self._counters.refused_seeks += 1
            return
        if not seek.asked:
            self._counters.sought += 1
        broken = path.via if path is not None else self._address
        direct = [each for each in self.helpers() if each not in self._paths.by_target and each != broken]
        for helper in seek.choose(self._rng, direct):
            self._messenger.send(helper, RelayAsk(seek.token, to))

    def _answered(self, sender: Address, found: RelayFound) -> None:
        seek = self._seeks.found(found.token, sender)
        if seek is None:
            return
        turned = self._paths.turn(seek.to, sender)
        if turned is None and not self._learn(seek.to, sender):
            return
        if turned is not None:
            self._tell_found(seek.to)
        self._awaited.fail(seek.to)

    def _learn(self, to: Address, via: Address) -> bool:
        path = self._paths.learn(to, via, self._runtime.now())
        if path is None:
            return False
        self._counters.found += 1
        self._seeks.end(to)
        self._try_straight(path)
        self._tell_found(to)
        return True

    def _tell_found(self, to: Address) -> None:
        for handler in self.found:
            handler(to)

    # -- the straight path again

    def _try_straight(self, path: Path) -> None:
        if path.trying:
            return
        path.trying = True

        def told(arrived: bool) -> None:
            path.trying = False
            path.needed = not arrived
            path.retry_at = self._runtime.now() + path.retry_s
            path.retry_s = min(2.0 * path.retry_s, RETRY_MAX_S)
            if arrived:
                self._paths.straight(path.to, self._runtime.now())
                if self._paths.forget(path):
                    self._counters.straightened += 1

        self._messenger.send(path.to, DirectTry(), told)

    def _straight_from(self, sender: Address, attempt: DirectTry) -> None:
        """The other end has got through to us: perhaps we get through to it."""
        path = self._paths.by_target.get(sender)
        if path is not None:
            self._try_straight(path)

    # -- what comes around

    def _tried(self, sender: Address, attempt: RelayTry) -> None:
        if self._refuses(attempt.id) or attempt.origin in (sender, self._address):
            return
        # The way back is learned from the first message that comes by it: until then the origin may think better of it.
        self._messenger.send(sender, RelayTried(attempt.token))

    def _received(self, sender: Address, relayed: Relayed) -> None:
        if self._refuses(relayed.id) or relayed.origin in (sender, self._address):
            return
        self._counters.received += 1
        self._paths.get(relayed.origin, self._runtime.now())
        self._learn(relayed.origin, sender)
        if self._codec is None:
            self._codec = Codec(self._handlers)
        try:
            message = self._codec.decode(relayed.payload)
        except CodecError:
            self._counters.not_understood += 1
            tag = tag_of(relayed.payload)
            if tag != NotUnderstood.__struct_config__.tag:
                known = any(kind.__struct_config__.tag == tag for kind in self._handlers)
                self.send(relayed.origin, NotUnderstood(tag, known))
            return
        self._handlers[type(message)](relayed.origin, message)

    def _refuses(self, node_id: bytes) -> bool:
        if self._who is None or not self._who.is_revoked(node_id):
            return False
        self._counters.refused_revoked += 1
        return True

    def _id_of(self, address: Address) -> bytes:
        return (self._who.peer_id(address) or b"") if self._who is not None else b""

    def statistics(self) -> RelayStatistics:
        return self._counters.snapshot(
            paths=len(self._paths.by_target),
            seeking=len(self._seeks),
            waiting=len(self._calls),
            pairs=self._carrier.pairs,
            carrying_bytes=self._carrier.carrying_bytes,
        )
