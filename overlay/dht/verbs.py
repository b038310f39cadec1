"""The DHT as the query processor sees it: the verbs of PIER's Table 3.2, each single and batched.

Every operation is addressed by storage name (the routing id follows from namespace and key), by a routing id
of the caller's, or by a node's address. Results come by callback, never before the call returns. Batches are
grouped by owner: one message per owner, up to a bound of bytes. `local_scan`, `new_data` and `upcall` look at
this node only.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from overlay.dht.accept import Keeper
from overlay.dht.collect import Batch, Reading
from overlay.dht.copies import Copies
from overlay.dht.doubts import Doubts
from overlay.dht.handover import Handover, HandoverStatistics
from overlay.dht.holds import Holds
from overlay.dht.loopback import Loopback
from overlay.dht.messages import (
    Cause,
    Code,
    GetReply,
    Item,
    Put,
    PutReply,
    Renew,
    Renewal,
    RenewReply,
    refusal,
)
from overlay.dht.operations import (
    GetObject,
    Got,
    GotObject,
    PutObject,
    RenewObject,
    id_of,
    to_item,
    to_renewal,
)
from overlay.dht.own_arc import OwnArc
from overlay.dht.owners import OwnerCache
from overlay.dht.requests import ITEM_BYTES, Entry, Requests, RequestStatistics
from overlay.dht.resolve import Resolver
from overlay.dht.sends import MultiSent, Sends, SendStatistics
from overlay.dht.serve import Server, ServeStatistics, build_get
from overlay.dht.standing import Standing, Standings
from overlay.dht.watch import OnNewData, OnPassing, Subscription
from overlay.dht.window import Window
from overlay.objects.name import Name, Prefix
from overlay.objects.store import ObjectStore, StoreLimits, StoreStatistics
from overlay.objects.stored import Role
from overlay.ring import Arc
from overlay.router import Router
from runtime.api import Address, Messenger, Runtime

#: Objects handed to a local scan between two turns of the loop: some tens of microseconds of walking.
SCAN_CHUNK_OBJECTS = 512


@dataclass(frozen=True, slots=True)
class DhtConfig:
    limits: StoreLimits = field(default_factory=StoreLimits)
    #: Upper size of a batch's message. Larger saves headers, smaller lets other traffic in between.
    message_bytes_max: int = 256 << 10


@dataclass(frozen=True, slots=True)
class DhtStatistics:
    store: StoreStatistics
    requests: RequestStatistics
    serve: ServeStatistics
    handover: HandoverStatistics
    sends: SendStatistics
    owners_cached: int
    owner_hits: int
    lookups: int
    lookups_failed: int
    copies_made: int
    copies_failed: int


class Dht:
    """One node's distributed hash table."""

    __slots__ = (
        "_cache",
        "_copies",
        "_handover",
        "_keeper",
        "_requests",
        "_resolver",
        "_router",
        "_runtime",
        "_sends",
        "_server",
        "_standings",
        "doubts",
    )

    def __init__(self, runtime: Runtime, messenger: Messenger, router: Router, config: DhtConfig) -> None:
        wire = Loopback.over(runtime, messenger)
        self._runtime = runtime
        self._router = router
        self._cache = OwnerCache()
        own = OwnArc(router)
        self._keeper = Keeper(runtime, own, Holds(router), ObjectStore(config.limits))
        self._resolver = Resolver(router, self._cache)
        self._requests = Requests(
            runtime, wire, router.me, own, self._cache, self._resolver, config.message_bytes_max
        )
        self.doubts = Doubts()
        self._standings = Standings(runtime, router, self.doubts)
        self._handover = Handover(runtime, wire, router, self._keeper, self._requests, self.doubts)
        self._copies = Copies(runtime, router, self._requests)
        self._server = Server(
            runtime,
            wire,
            router,
            own,
            self._standings,
            self._keeper,
            self._cache,
            self._requests,
            self._handover,
            self._copies,
            config.message_bytes_max,
        )
        self._sends = Sends(runtime, wire, router, self._keeper, self._cache, config.message_bytes_max)
        wire.on(PutReply, self._put_replied)
        wire.on(RenewReply, self._put_replied)
        wire.on(GetReply, self._get_replied)
        router.on_suspect(self._cache.forget)

    # --- put, renew --------------------------------------------------------------------------------------------

    def put(self, put: PutObject, done: Callable[[Code], None] | None = None) -> None:
        """Stores an object at its owner; a refusal says why."""
        self._requests.submit(_build_put, [_put_entry(put, done or _ignore)])

    def put_many(
        self,
        puts: Sequence[PutObject],
        done: Callable[[list[Code]], None] | None = None,
        each: Callable[[int, Code], None] | None = None,
    ) -> None:
        """Codes come in the order of the puts, when the last is known; `each` hears of one as soon as it is."""
        batch: Batch[Code] = Batch(self._runtime, len(puts), done, each)
        self._requests.submit(_build_put, [_put_entry(put, batch.slot(n)) for n, put in enumerate(puts)])

    def put_temp(self, put: PutObject, done: Callable[[Code], None] | None = None) -> None:
        """State of a query: ends by itself, is never renewed and never copied (CAN 4)."""
        self.put(replace(put, temporary=True), done)

    def renew(self, renew: RenewObject, done: Callable[[Code], None] | None = None) -> None:
        """Extends an object's life; UNKNOWN when its owner does not have it: put it again."""
        self._requests.submit(_build_renew, [_renew_entry(renew, done or _ignore)])

    def renew_many(
        self,
        renewals: Sequence[RenewObject],
        done: Callable[[list[Code]], None] | None = None,
        each: Callable[[int, Code], None] | None = None,
    ) -> None:
        """As `put_many`."""
        batch: Batch[Code] = Batch(self._runtime, len(renewals), done, each)
        entries = [_renew_entry(renew, batch.slot(n)) for n, renew in enumerate(renewals)]
        self._requests.submit(_build_renew, entries)

    def _put_replied(self, sender: Address, message: PutReply | RenewReply) -> None:
        try:
            ends = [(Code(code), None) for code in message.codes]
        except ValueError:
            ends = []  # Not a code: the reply matches no request and is counted as such.
        self._requests.replied(sender, message.call, ends, message.owners)

    # --- get ---------------------------------------------------------------------------------------------------

    def get(self, get: GetObject, done: Callable[[Got], None]) -> None:
        """Reads what is stored under a key."""
        self._submit_get([Reading(get, self._submit_get, done).entry()])

    def get_many(self, gets: Sequence[GetObject], done: Callable[[list[Got]], None]) -> None:
        """Results come in the order of the gets."""
        batch: Batch[Got] = Batch(self._runtime, len(gets), done)
        self._submit_get(
            [Reading(get, self._submit_get, batch.slot(n)).entry() for n, get in enumerate(gets)]
        )

    def _submit_get(self, entries: Sequence[Entry]) -> None:
        self._requests.submit(build_get, entries)

    def _get_replied(self, sender: Address, message: GetReply) -> None:
        ends = [(answer.code, answer) for answer in message.answers]
        self._requests.replied(sender, message.call, ends, message.owners)

    # --- send --------------------------------------------------------------------------------------------------

    def send(self, put: PutObject, done: Callable[[bool], None] | None = None) -> None:
        """Carries an object hop by hop to the owner of its id, with upcalls on the way; stored there when its
        lifetime is not nothing. By address it goes straight there."""
        self.send_many([put], done)

    def send_many(self, puts: Iterable[PutObject], done: Callable[[bool], None] | None = None) -> None:
        """Objects of one id travel together; `done` tells whether all of them arrived or were stopped. One that nobody
        could read stays here."""
        groups: dict[tuple[Address | None, int], list[Item]] = {}
        arrived = True
        for put in puts:
            item = to_item(put)
            if refusal(item) is not None:
                arrived = False
                continue
            groups.setdefault(
                (put.target.address, id_of(put.name.namespace, put.name.key, put.target)), []
            ).append(item)
        left = len(groups)
        if left == 0 and done is not None:
            self._runtime.call_later(0.0, done, arrived)

        def one(ok: bool) -> None:
            nonlocal left, arrived
            left -= 1
            arrived = arrived and ok
            if left == 0 and done is not None:
                done(arrived)

        for (address, identifier), items in groups.items():
            if address is not None:
                self._sends.send_to(address, items, one)
            else:
                self._sends.send(identifier, items, one)

    def multi_send(self, puts: Sequence[PutObject], done: Callable[[MultiSent], None] | None = None) -> None:
        """Objects for many ids, sharing messages as far as they go the same way (CQ 2)."""
        items = [to_item(put) for put in puts]
        readable = [item for item in items if refusal(item) is None]
        stayed = len(items) - len(readable)

        def ended(sent: MultiSent) -> None:
            assert done is not None
            done(replace(sent, failed=sent.failed + stayed))

        self._sends.multi_send(readable, None if done is None else ended)

    # --- this node ---------------------------------------------------------------------------------------------

    def stand(self, done: Callable[[Standing], None], wait_s: float) -> None:
        """As what this node answers for a published table; waits so long at most for it to be sure."""
        self._standings.take(done, wait_s)

    def local_scan(
        self,
        prefix: Prefix,
        each: Callable[[list[GotObject]], None],
        done: Callable[[], None],
        within: Arc | None = None,
        strays: Callable[[int], None] | None = None,
    ) -> Subscription:
        """Shows every object that belongs to this node, in chunks; cancel to end early. Together with a
        `new_data` subscription made in the same turn every object is seen exactly once. With an arc of a `Standing`
        what lies within it belongs, whatever the ring does meanwhile; `strays` then hears how many objects outside it
        this node has taken in and not yet handed to their owner, if there are any."""
        scan = self._keeper.store.scan(prefix)
        belongs = self._keeper.belongs if within is None else partial(self._keeper.lies_within, within)
        cancelled, astray = False, 0

        def step(_: None) -> None:
            if cancelled:
                return
            nonlocal astray
            now = self._runtime.now()
            seen = [stored for stored in scan.next(SCAN_CHUNK_OBJECTS, now) if not stored.load]
            chunk = [
                GotObject(stored.name, stored.value, stored.expires_at - now)
                for stored in seen
                if belongs(stored)
            ]
            if within is not None:
                astray += sum(stored.role is Role.PRIMARY and not belongs(stored) for stored in seen)
            if chunk:
                each(chunk)
            if scan.finished:
                if astray and strays is not None:
                    strays(astray)
                done()
            else:
                self._runtime.call_later(0.0, step, None)

        def cancel() -> None:
            nonlocal cancelled
            cancelled = True

        self._runtime.call_later(0.0, step, None)
        return Subscription(cancel)

    def peek(self, name: Name) -> bytes | None:
        """What this node holds under a name, whoever owns it."""
        stored = self._keeper.store.get(name, self._runtime.now())
        return None if stored is None else stored.value

    def new_data(self, prefix: Prefix, handler: OnNewData) -> Subscription:
        """Tells of objects that arrive at this node and belong to it."""
        return self._keeper.new_data.add(prefix, handler)

    def window(self, namespace: str, age_s: float) -> Window:
        """The objects of a namespace that were born lately, in whatever arc this node answers for when it is asked."""
        return Window(self._runtime, self._keeper, namespace, age_s)

    def hold(self, namespace: str) -> Subscription:
        """Settles which temporary objects of a namespace are this node's, until cancelled: see `holds`."""
        self._keeper.holds.begin(namespace)
        return Subscription(lambda: self._keeper.let_go(namespace))

    def turn_load(self, namespace: str, load: str) -> int:
        """A load is about to be shown everywhere; how many of its objects this node owns."""
        return self._keeper.turn_load(namespace, load)

    def show_load(self, namespace: str, load: str) -> int:
        return self._keeper.show_load(namespace, load)

    def drop(self, namespace: str, keys: Collection[str]) -> int:
        """Lets go of what lies here under a namespace, or under some keys of it; how much of it this node owned."""
        return self._keeper.drop(namespace, keys)

    def unsettled(self, namespace: str, since: float) -> bool:
        """Whether rows of a load come into sight here while somebody reads who has read since then."""
        hidden = self._keeper.hidden
        return hidden.turning(namespace, self._runtime.now()) or hidden.shown_since(namespace, since)

    def upcall(self, prefix: Prefix, handler: OnPassing) -> Subscription:
        """Shows sent objects that pass through this node, and lets the handler stop or change them."""
        return self._sends.passing.add(prefix, handler)

    def leave(self, done: Callable[[], None]) -> None:
        """Gives what this node owns to its heirs; the caller then leaves the ring."""
        self._handover.leave(done)

    def namespaces(self) -> list[str]:
        """Namespaces of which this node holds objects, its own or copies."""
        return list(self._keeper.store.namespaces())

    def shape(self) -> int:
        """Another number whenever what `namespaces` and `keys_under` say may have changed."""
        return self._keeper.store.shape

    def keys_under(self, namespace: str) -> int:
        """Under how many keys of a namespace this node holds objects, its own or copies."""
        return self._keeper.store.keys_under(namespace)

    def holds(self, namespace: str, suffix: str, objects: int) -> bool:
        """Whether this node may hold an object of a namespace, its own or a copy, whose suffix begins so: it does, or
        there are more than so many objects to look at."""
        scan = self._keeper.store.scan(Prefix(namespace))
        found = scan.next(objects, self._runtime.now())
        return not scan.finished or any(each.name.suffix.startswith(suffix) for each in found)

    def sample(self, namespace: str, objects: int) -> tuple[list[bytes], float]:
        """Values of a namespace that this node owns, found among the first so many objects, and how many times as
        many keys there are as were looked at."""
        store = self._keeper.store
        found = store.scan(Prefix(namespace)).next(objects, self._runtime.now())
        seen = len({stored.name.key for stored in found})
        values = [each.value for each in found if self._keeper.belongs(each) and not each.temporary]
        return values, store.keys_under(namespace) / max(1, seen)

    def statistics(self) -> DhtStatistics:
        return DhtStatistics(
            store=self._keeper.store.statistics(),
            requests=self._requests.statistics(),
            serve=self._server.statistics(),
            handover=self._handover.statistics(),
            sends=self._sends.statistics(),
            owners_cached=len(self._cache),
            owner_hits=self._resolver.hits,
            lookups=self._resolver.lookups,
            lookups_failed=self._resolver.failures,
            copies_made=self._copies.made,
            copies_failed=self._copies.failed,
        )


def _ignore(_: object) -> None:
    """For callers who do not ask how it ended; the statistics still say."""


def _put_entry(put: PutObject, done: Callable[[Code], None]) -> Entry:
    size = ITEM_BYTES + len(put.value)
    to = put.target.address
    # Where rows of a query go is settled: asking elsewhere gains nothing.
    patient = to is not None or put.temporary
    return Entry(to_item(put), size, lambda code, _: done(code), to=to, patient=patient)


def _renew_entry(renew: RenewObject, done: Callable[[Code], None]) -> Entry:
    return Entry(to_renewal(renew), ITEM_BYTES, lambda code, _: done(code), to=renew.target.address)


def _build_put(call: int, items: tuple[Item, ...], anyhow: bool) -> Put:
    return Put(call, items, Cause.PUT, anyhow)


def _build_renew(call: int, renewals: tuple[Renewal, ...], anyhow: bool) -> Renew:
    return Renew(call, renewals, anyhow)
