"""The start of a line as syslog writes it: priority, time, host; and where the message begins.

RFC 3164 (`<4>Jun  8 14:34:33 host `), ISO times (rsyslog), RFC 5424 (`<134>1 time host app pid id [data] `).
Feeds every dialect that travels in syslog. A header that cannot be read leaves `good` false; what that
means for the line is the dialect's business.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pier_node.logs import stamps
from pier_node.logs.block import Block, Mask, Positions, Spans
from pier_node.logs.engine import Engine
from pier_node.logs.scan_numpy import SPACE
from pier_node.logs.stamps import Context, Micros

# `<191>` and the version digit with its space: the most that may stand before the time.
_PRIORITY_WIDTH_MAX = 5


@dataclass(frozen=True, slots=True)
class Headers:
    us: Micros
    good: Mask
    zoned: Mask
    host: Spans
    message: Positions


def _skip_priority(block: Block) -> tuple[Positions, Mask]:
    """Where the time starts, and which lines are RFC 5424."""
    data, at = block.data, block.starts
    opened = data[at] == ord("<")
    none = np.zeros(len(at), np.bool_)
    if not opened.any():
        return at, none
    closed = np.zeros(len(at), np.int64)
    for width in range(2, _PRIORITY_WIDTH_MAX):
        closed = np.where((closed == 0) & (data[at + width] == ord(">")), width + 1, closed)
    at = np.where(opened, at + closed, at)
    modern = opened & (data[at] == ord("1")) & (data[at + 1] == SPACE)
    return np.where(modern, at + 2, at), modern


def _stamps(block: Block, at: Positions, context: Context) -> stamps.Stamps:
    """Each line by its own layout; a block of one layout, the usual case, is read in one go."""
    digit = (block.data[at] >= 48) & (block.data[at] <= 57)
    if digit.all():
        return stamps.iso(block.data, at, block.ends, context)
    if not digit.any():
        return stamps.syslog(block.data, at, block.ends, context)
    by_iso = stamps.iso(block.data, at, block.ends, context)
    by_name = stamps.syslog(block.data, at, block.ends, context)
    return stamps.Stamps(
        np.where(digit, by_iso.us, by_name.us),
        np.where(digit, by_iso.good, by_name.good),
        np.where(digit, by_iso.end, by_name.end),
        digit & by_iso.zoned,
    )


def headers(engine: Engine, block: Block, context: Context) -> Headers:
    data = block.data
    at, modern = _skip_priority(block)
    found = _stamps(block, at, context)
    end = found.end + (data[found.end] == ord(":"))  # Cisco closes the time with a colon
    good = found.good & (data[end] == SPACE)
    host_at = np.where(good, end + 1, block.starts)
    host_end = engine.find(data, host_at, block.ends, SPACE)
    message = np.minimum(host_end + 1, block.ends)
    if modern.any():
        message = np.where(modern, _modern_message(engine, block, message), message)
    # A program's tag (`filterlog:`) or a message code (`%ASA-...`) in the host's place: there is no host.
    tag = (data[host_end - 1] == ord(":")) | (data[host_at] == ord("%"))
    message = np.where(tag, host_at, message)
    nil = tag | ((host_end - host_at == 1) & (data[host_at] == ord("-")))
    host = Spans(host_at, np.where(good & ~nil, host_end, host_at))
    return Headers(found.us, good, found.zoned, host, message)


def _modern_message(engine: Engine, block: Block, at: Positions) -> Positions:
    """RFC 5424: after the host come app, pid, message id, then `-` or `[structured data]`."""
    for _ in range(3):
        at = np.minimum(engine.find(block.data, at, block.ends, SPACE) + 1, block.ends)
    structured = block.data[at] == ord("[")
    closing = engine.find(block.data, at, block.ends, ord("]"))
    message: Positions = np.minimum(np.where(structured, closing, at) + 2, block.ends)
    return message
