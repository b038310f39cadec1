"""Messages and their codec: msgpack arrays with an integer tag first, decoded by type.

Every message that nodes exchange is a frozen `Message` with a unique tag. Decoding checks types, lengths
and nesting against the declaration and nothing else gets in. Fields may be appended with defaults: an
older node ignores what it does not know, a newer one fills in what is missing, so rings upgrade node by node.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Any, TypeAlias, Union

import msgspec

#: A 160-bit ring identifier on the wire.
WireId: TypeAlias = Annotated[bytes, msgspec.Meta(min_length=20, max_length=20)]
#: "host:port"; a DNS name has at most 253 characters.
WireAddress: TypeAlias = Annotated[str, msgspec.Meta(max_length=262)]
#: A number that names something: a call, a sequence, a version.
WireNumber: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
#: How many of something. Far more than there can be, and few enough that sums of them are numbers too; whoever adds
#: them up and tells others ends at the same bound.
COUNT_MAX = 1 << 48
WireCount: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=COUNT_MAX)]
#: A time that has passed or is left, in milliseconds: at most some nine thousand years.
MILLIS_MAX = 1 << 48
WireMillis: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=MILLIS_MAX)]


def to_millis(seconds: float, least: int = 0) -> int:
    """A time as it travels. What is beyond the bound, not a number, or negative, ends at it."""
    if not seconds * 1000 >= least:
        return least
    return int(min(seconds * 1000, MILLIS_MAX))


class Part(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Base of what travels inside messages and never by itself."""


class Message(msgspec.Struct, frozen=True, array_like=True, gc=False, tag_field="tag"):
    """Base of everything sent between nodes: `class Ping(Message, frozen=True, tag=1): ...`."""


#: The largest tag that a message may have.
TAG_MAX = 0xFFFF


class NotUnderstood(Message, frozen=True, tag=98):
    """To the sender of a message that its receiver could do nothing with. Never sent in answer to another of these."""

    #: The tag of that message; zero where not even that could be read.
    kind: Annotated[int, msgspec.Meta(ge=0, le=TAG_MAX)]
    #: The kind is known here, and what it held was not as it should be.
    malformed: bool


class CodecError(ValueError):
    """The peer's bytes are not a message this node knows."""


class Codec:
    """Encodes and decodes a closed set of message types."""

    def __init__(self, kinds: Iterable[type[Message]]) -> None:
        self.kinds: Sequence[type[Message]] = tuple(kinds)
        tags = [kind.__struct_config__.tag for kind in self.kinds]
        assert len(set(tags)) == len(tags), f"message tags collide: {sorted(map(str, tags))}"
        self._encoder = msgspec.msgpack.Encoder()
        union: Any = Union[self.kinds]  # noqa: UP007 - built at run time
        self._decoder = msgspec.msgpack.Decoder(union)
        self.encode = self._encoder.encode

    def decode(self, data: bytes | memoryview) -> Message:
        try:
            message: Message = self._decoder.decode(data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise CodecError(str(error)) from None
        return message


def tag_of(data: bytes) -> int:
    """The tag of an encoded message, whatever follows it; zero where there is none."""
    head = data[0] if data else 0
    start = 1 if 0x90 < head <= 0x9F else 3 if head == 0xDC else 0
    tag = data[start : start + 3]
    if not start or not tag:
        return 0
    if tag[0] < 0x80:
        return tag[0]
    if tag[0] == 0xCC and len(tag) > 1:
        return tag[1]
    return int.from_bytes(tag[1:3], "big") if tag[0] == 0xCD and len(tag) == 3 else 0
