"""Layout of datagrams: what is in the clear, and what the seal hides. Big-endian throughout.

    HELLO, OPEN   kind 1 | key id 4 | node id 20 | epoch 8 | counter 8 | sealed greeting
    DATA          kind 1 | tag 4 | counter 8 | sealed packet

    packet        flags 1 | packet number 4 | packet span 2 | segment number 4 | segment span 2
                  | acknowledged 4 | delay 2 | run 2 | ranges 1 | ranges x (gap 2, run 2) | segment
    messages      count 2 | count x length 2 | payloads
    fragment      message 4 | offset 4 | total 4 | bytes

The high half of `kind` is the version. A packet number names one transmission and is what acknowledgements
speak of; a segment number names the content and is what duplicates are told by; the spans say how far back
the oldest packet and segment lie that the sender still cares for. Numbers are sent as their low 32 bits and
completed by the receiver.
"""

from __future__ import annotations

from functools import cache
from hashlib import blake2b
from struct import Struct

from overlay.transport.keyring import KEY_ID_BYTES
from overlay.transport.seal import COUNTER_BYTES, EPOCH_BYTES, NODE_ID_BYTES, SEAL_BYTES

VERSION = 1
HELLO = VERSION << 4 | 1
OPEN = VERSION << 4 | 2
DATA = VERSION << 4 | 3

TAG_BYTES = 4
DATA_HEADER_BYTES = 1 + TAG_BYTES + COUNTER_BYTES
LONG_PREFIX_BYTES = 1 + KEY_ID_BYTES + NODE_ID_BYTES + EPOCH_BYTES
LONG_HEADER_BYTES = LONG_PREFIX_BYTES + COUNTER_BYTES

PACKET = Struct(">BIHIHIHHB")
#: What a datagram holds beside its segment.
OVERHEAD_BYTES = DATA_HEADER_BYTES + SEAL_BYTES + PACKET.size
RANGE = Struct(">HH")
FRAGMENT = Struct(">III")
#: The packet carries a segment; it carries acknowledgements; its segment is a fragment.
HAS_SEGMENT, HAS_ACK, IS_FRAGMENT = 1, 2, 4

#: Ranges behind the newest in one acknowledgement: 128 bytes, far more gaps than a window should have.
RANGES_MAX = 32
#: Segments between the oldest unsettled one and the newest; bounds what a receiver remembers.
SPAN_MAX = 8_192
DELAY_UNIT_S = 1e-5
U16, U32 = 0xFFFF, 0xFFFF_FFFF


def tag_of(epoch: bytes, flow: int, key_id: bytes) -> bytes:
    """What a sender's datagrams of one session under one ring key begin with. Says nothing secret; lets the
    receiver find the key."""
    base = blake2b(epoch + flow.to_bytes(8, "big"), digest_size=TAG_BYTES).digest()
    return bytes(a ^ b for a, b in zip(base, key_id, strict=True))


def completed(low: int, near: int) -> int:
    """The number closest to `near` that ends in the 32 bits `low`."""
    distance = (low - near) & U32
    return near + distance if distance < 0x8000_0000 else near + distance - 0x1_0000_0000


@cache
def lengths_struct(count: int) -> Struct:
    """The head of a segment of `count` messages. As many kinds as messages fit into a datagram."""
    return Struct(f">H{count}H")


def parse_messages(body: bytes, start: int) -> list[bytes] | None:
    """The payloads of a segment that begins at `start`; None when the lengths do not add up."""
    end = len(body)
    if start + 2 > end:
        return None
    count = body[start] << 8 | body[start + 1]
    position = start + 2 + 2 * count
    if position > end:
        return None
    payloads = []
    for length in lengths_struct(count).unpack_from(body, start)[1:]:
        payloads.append(body[position : position + length])
        position += length
    return payloads if position == end else None


def parse_ranges(body: bytes, newest: int, run: int, count: int) -> list[tuple[int, int]] | None:
    """Acknowledged packet numbers as (first, last), newest first; None when they cannot be."""
    if count > RANGES_MAX or len(body) < PACKET.size + count * RANGE.size:
        return None
    first = newest - run
    ranges = [(first, newest)]
    for position in range(PACKET.size, PACKET.size + count * RANGE.size, RANGE.size):
        gap, run = RANGE.unpack_from(body, position)
        last = first - gap - 1
        first = last - run
        ranges.append((first, last))
    return ranges if first >= 0 else None
