"""Messages about the members of the ring; see `messages`, which has them with all others."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from pier_node.protocol.fields import LISTED_MAX, Name, Names, RequestId, Seconds
from runtime.message import Message, Part


class MemberEntry(Part, frozen=True):
    """One member of the ring, on it or not."""

    id: Name
    address: Name = ""
    host: Name = ""
    version: Name = ""
    #: A fingerprint of its certificate, where ids are certified.
    certificate: Name = ""
    #: Tables that it brings.
    sources: Names = ()
    #: here; absent: expected and not there; left in good order; retired by command; unknown where nobody could say.
    state: Name = ""
    #: How long ago it was last known to be there, as far as that was noticed; 0 for one that is.
    seen_s: Seconds | None = None


class MembersAre(Message, frozen=True, tag=55):
    """Who belongs to the ring."""

    request: RequestId
    members: Annotated[tuple[MemberEntry, ...], Meta(max_length=LISTED_MAX)]
