"""Which request a message was about that cannot be decoded, and what is wrong with it.

A frame whose message has a known number and a request, and a field beyond its bounds, is one request's mistake: a name
that is too long, too many of something. Everything else that cannot be decoded is no message at all.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from pier_node.protocol.fields import RequestId
from runtime.message import CodecError, Message

#: Number and request of a message, the rest left as it came.
_head = msgspec.msgpack.Decoder(list[msgspec.Raw])
_number = msgspec.msgpack.Decoder(int)
_request = msgspec.msgpack.Decoder(RequestId)
#: Where in a message msgspec says that something is wrong.
_PLACE = re.compile(r" - at `\$\[(\d+)\][^`]*`$")


class Unfit(msgspec.Struct, frozen=True):
    """A message about a request that cannot be used."""

    kind: type[Message]
    request: int
    why: str


def unfit(body: bytes | memoryview, error: CodecError, kinds: Sequence[type[Message]]) -> Unfit | None:
    """What the message was about; None when nobody can tell."""
    try:
        number, request, *_ = _head.decode(body)
        kind = next(each for each in kinds if each.__struct_config__.tag == _number.decode(number))
        if kind.__struct_fields__[:1] != ("request",):
            return None
        return Unfit(kind, _request.decode(request), _words(kind, str(error)))
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError, StopIteration):
        return None


def _words(kind: type[Message], error: str) -> str:
    """The error with the name of the field in place of its number."""
    found = _PLACE.search(error)
    if found is None:
        return f"{kind.__name__}: {error}"
    fields = kind.__struct_fields__
    at = int(found.group(1)) - 1
    return f"{kind.__name__}.{fields[at] if at < len(fields) else at}: {error[: found.start()]}"
