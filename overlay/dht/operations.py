"""Operations as values: what a caller asks of the DHT, and what it gets back."""

from __future__ import annotations

from dataclasses import dataclass

from overlay.dht.messages import Code, Item, Renewal, Want
from overlay.objects.name import Name
from overlay.ring import routing_id, to_wire
from runtime.api import Address
from runtime.message import to_millis


@dataclass(frozen=True, slots=True)
class Target:
    """Where an operation goes when not where its name says: a routing id, or a node's address."""

    id: int | None = None
    address: Address | None = None


BY_NAME = Target()


@dataclass(frozen=True, slots=True)
class PutObject:
    """An object to be put or sent."""

    name: Name
    value: bytes
    lifetime_s: float
    target: Target = BY_NAME
    #: Replicas beside the primary; with none, a dead owner's objects come back when they are renewed.
    copies: int = 0
    #: The publisher's mark on this value; renewals name it.
    version: int = 0
    temporary: bool = False
    #: The load it is part of, as long as nobody is to see it (`overlay.dht.hidden`).
    load: str = ""
    #: How long ago its content was first put: what is put again because its owner was lost is not new.
    age_s: float = 0.0


@dataclass(frozen=True, slots=True)
class RenewObject:
    name: Name
    #: Nothing: the object ends now.
    lifetime_s: float
    target: Target = BY_NAME
    #: None renews whatever value is there.
    version: int | None = None
    load: str = ""


@dataclass(frozen=True, slots=True)
class GetObject:
    """Everything under a partitioning key, or one object of it."""

    namespace: str
    key: str
    suffix: str | None = None
    target: Target = BY_NAME


@dataclass(frozen=True, slots=True)
class GotObject:
    name: Name
    value: bytes
    lifetime_s: float
    #: How long ago it came to the node that owns it, or to the one that gave it to that.
    age_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Got:
    """OK with no objects: the owner has nothing. UNREACHED: nobody knows. LIMIT: these, and there are more."""

    code: Code
    objects: tuple[GotObject, ...] = ()
    #: False: the owner was not sure of its arc, or of having all that was published there.
    sure: bool = True
    #: False: so may be objects that nodes make from others, as entries of an index.
    settled: bool = True


def id_of(namespace: str, key: str, target: Target) -> int:
    return routing_id(namespace, key) if target.id is None else target.id


def to_item(put: PutObject) -> Item:
    return Item(
        to_wire(id_of(put.name.namespace, put.name.key, put.target)),
        *put.name,
        put.value,
        lifetime_ms=to_millis(put.lifetime_s),
        version=put.version,
        copies=0 if put.temporary else put.copies,
        temporary=put.temporary,
        load=put.load,
        born_ms=to_millis(put.age_s),
    )


def to_renewal(renew: RenewObject) -> Renewal:
    wire_id = to_wire(id_of(renew.name.namespace, renew.name.key, renew.target))
    return Renewal(wire_id, *renew.name, to_millis(renew.lifetime_s), renew.version, renew.load)


def to_want(get: GetObject) -> Want:
    return Want(to_wire(id_of(get.namespace, get.key, get.target)), get.namespace, get.key, get.suffix)
