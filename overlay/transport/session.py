"""One session with one peer: whom, in which of its lives, how its datagrams are opened and ours are headed."""

from __future__ import annotations

from cryptography.exceptions import InvalidTag

from overlay.transport.keyring import KEYS_MAX
from overlay.transport.seal import NONCE_PAD, Keys, Opener, Sealer
from overlay.transport.seal_replay import MASK, WINDOW_BITS, ReplayWindow
from overlay.transport.wire import DATA, tag_of


class Session:
    """`confirmed` once the peer has shown that it holds the session too."""

    __slots__ = (
        "_own_epoch",
        "_plain_tag",
        "born",
        "challenge",
        "confirmed",
        "flow",
        "openers",
        "prefix",
        "remote_epoch",
        "remote_id",
        "window",
    )

    def __init__(
        self, sealer: Sealer, flow: int, remote_id: bytes, remote_epoch: bytes, remote_counter: int
    ) -> None:
        self.flow = flow
        self._own_epoch = sealer.epoch
        self.remote_id = remote_id
        self.remote_epoch = remote_epoch
        #: Our counter at the start: challenges made before it are void for this peer.
        self.born = sealer.counter
        #: Nothing that the peer sealed before its greeting is admitted.
        self.window = ReplayWindow(remote_counter)
        #: By tag: one per ring key that the peer has used.
        self.openers: dict[bytes, Opener] = {}
        self._plain_tag = tag_of(remote_epoch, flow, bytes(4))
        #: (counter, authenticator) to put into OPEN until confirmed; None on the responder's side.
        self.challenge: tuple[int, bytes] | None = None
        self.confirmed = False
        self.prefix = b""
        self.rekey(sealer)

    @property
    def offered(self) -> bool:
        """This end asked for the session and does not know yet whether the other has it."""
        return self.challenge is not None and not self.confirmed

    def rekey(self, sealer: Sealer) -> None:
        """The ring changed: our datagrams get another clear part, and what opened the peer's is looked up
        again, since its key may be gone."""
        self.openers.clear()
        self.prefix = bytes([DATA]) + tag_of(sealer.epoch, self.flow, sealer.key_id)

    def open(self, keys: Keys, datagram: bytes) -> bytes | str:
        """The packet in a DATA datagram, or the reason why there is none."""
        number = datagram[5:13]
        counter = int.from_bytes(number, "big")
        window = self.window
        ahead = counter - window.highest
        opener = self.openers.get(datagram[1:5])
        if opener is None or not 0 < ahead < WINDOW_BITS or not opener.low <= counter <= opener.high:
            return self._open_otherwise(keys, datagram, number, counter)
        try:
            packet = opener.cipher.decrypt(NONCE_PAD + number, datagram[13:], datagram[:13] + self._own_epoch)
        except InvalidTag:
            return "bad_seal"
        window.seen = (window.seen << ahead | 1) & MASK
        window.highest = counter
        return packet

    def _open_otherwise(self, keys: Keys, datagram: bytes, number: bytes, counter: int) -> bytes | str:
        """A datagram that is late, or sealed with another key or generation than those before."""
        if not self.window.admissible(counter):
            return "replay"
        tag = datagram[1:5]
        opener = self.openers.get(tag) or self._other_opener(keys, tag, counter)
        if opener is None:
            return "no_session"
        packet = opener.open(number, counter, datagram[13:], datagram[:13] + self._own_epoch)
        if packet is None:
            return "bad_seal"
        self.window.admit(counter)
        if tag not in self.openers:
            if len(self.openers) >= KEYS_MAX:
                self.openers.pop(next(iter(self.openers)))
            self.openers[tag] = opener
        return packet

    def _other_opener(self, keys: Keys, tag: bytes, counter: int) -> Opener | None:
        """The peer may have begun to seal with another key of the ring; believed once a seal is right."""
        key_id = bytes(a ^ b for a, b in zip(tag, self._plain_tag, strict=True))
        return Opener.of(keys, key_id, self.remote_id, self.remote_epoch, counter)
