"""The object manager against a plain model, its bounds, and scans that meet changes."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from overlay.objects.name import EVERYTHING, Name, Prefix
from overlay.objects.store import OBJECT_OVERHEAD_BYTES, ObjectStore, StoreLimits
from overlay.objects.stored import Outcome, Role, StoredObject


def offered(
    name: Name,
    value: bytes = b"v",
    *,
    now: float = 0.0,
    lifetime_s: float = 100.0,
    version: int = 0,
    role: Role = Role.PRIMARY,
    age_s: float = 0.0,
    temporary: bool = False,
) -> StoredObject:
    return StoredObject(
        name, 7, value, now - age_s, now + lifetime_s, now - age_s, version, 0, role, temporary
    )


NAMES = st.builds(Name, st.sampled_from("ab"), st.sampled_from("kl"), st.sampled_from("xyz"))
STEPS = st.one_of(
    st.tuples(st.just("put"), NAMES, st.floats(0.1, 50), st.binary(max_size=3)),
    st.tuples(st.just("renew"), NAMES, st.floats(0, 50), st.none()),
    st.tuples(st.just("wait"), st.none(), st.floats(0, 20), st.none()),
    st.tuples(st.just("expire"), st.none(), st.none(), st.none()),
)


@given(st.lists(STEPS, max_size=60))
def test_behaves_as_a_dictionary_with_ends(steps: list[tuple[str, Name, float, bytes]]) -> None:
    store = ObjectStore(StoreLimits(lifetime_max_s=30.0))
    model: dict[Name, tuple[float, bytes]] = {}
    now = 0.0
    for what, name, number, value in steps:
        if what == "put":
            assert store.put(offered(name, value, now=now, lifetime_s=number), now).kept
            model[name] = (now + min(number, 30.0), value)
        elif what == "renew":
            renewed = store.renew(name, number, None, now) is not None
            assert renewed == (name in model and model[name][0] > now)
            if renewed and number <= 0:
                del model[name]
            elif renewed:
                model[name] = (now + min(number, 30.0), model[name][1])
        elif what == "wait":
            now += number
        else:
            while store.expire(now):
                pass
            due = store.next_expiry()
            assert due is None or due > now
        alive = {each: value for each, (end, value) in model.items() if end > now}
        scan = store.scan(EVERYTHING)
        seen = {}
        while not scan.finished:
            seen.update({stored.name: stored.value for stored in scan.next(2, now)})
        assert seen == alive
        under = {stored.name: stored.value for stored in store.under("a", "k", now)}
        assert under == {each: value for each, value in alive.items() if each[:2] == ("a", "k")}
    now += 1000
    while store.expire(now):
        pass
    assert (store.count, store.bytes, store.next_expiry()) == (0, 0, None)


def test_lifetimes_are_cut_to_the_maximum() -> None:
    store = ObjectStore(StoreLimits(lifetime_max_s=10.0, temporary_lifetime_max_s=2.0))
    store.put(offered(Name("n", "k", "1"), lifetime_s=1e9), 0.0)
    store.put(offered(Name("n", "k", "2"), lifetime_s=1e9, temporary=True), 0.0)
    assert [s.name.suffix for s in store.under("n", "k", 1.9)] == ["1", "2"]
    assert [s.name.suffix for s in store.under("n", "k", 2.1)] == ["1"]
    assert store.under("n", "k", 10.1) == []


def test_a_younger_value_is_not_replaced_by_an_older_one() -> None:
    store = ObjectStore(StoreLimits())
    name = Name("n", "k", "s")
    assert store.put(offered(name, b"new", now=10.0), 10.0) is Outcome.STORED
    assert store.put(offered(name, b"old", now=11.0, age_s=5.0), 11.0) is Outcome.SUPERSEDED
    assert store.put(offered(name, b"new", now=12.0), 12.0) is Outcome.SAME
    assert store.put(offered(name, b"newer", now=13.0), 13.0) is Outcome.REPLACED
    found = store.get(name, 14.0)
    assert found is not None and found.value == b"newer"
    assert store.count == 1


def test_what_another_node_still_had_does_not_cut_a_life_short() -> None:
    store = ObjectStore(StoreLimits())
    name = Name("n", "k", "s")
    store.put(offered(name, lifetime_s=100.0), 0.0)
    stale = replace(offered(name, now=10.0, lifetime_s=5.0, age_s=10.0), moved=True)
    assert store.put(stale, 10.0) is Outcome.SAME
    assert store.get(name, 50.0) is not None
    assert store.put(offered(name, now=50.0, lifetime_s=5.0), 50.0) is Outcome.SAME
    assert store.get(name, 60.0) is None, "its publisher may"


def test_a_renewal_names_the_value_it_means() -> None:
    store = ObjectStore(StoreLimits())
    name = Name("n", "k", "s")
    store.put(offered(name, version=4), 0.0)
    assert store.renew(name, 50.0, 3, 0.0) is None
    assert store.renew(name, 50.0, 4, 0.0) is not None
    assert store.renew(name, 50.0, None, 0.0) is not None
    store.put(offered(name._replace(suffix="t"), temporary=True), 0.0)
    assert store.renew(name._replace(suffix="t"), 50.0, None, 0.0) is None
    assert store.statistics().renewals_refused == 2


def test_full_stores_refuse_but_copies_make_room() -> None:
    room = 3 * (OBJECT_OVERHEAD_BYTES + 13)
    store = ObjectStore(StoreLimits(bytes_max=room, value_bytes_max=20))
    copy = offered(Name("n", "k", "0"), b"0123456789", role=Role.COPY)
    assert store.put(copy, 0.0) is Outcome.STORED
    for suffix in "12":
        assert store.put(offered(Name("n", "k", suffix), b"0123456789"), 0.0) is Outcome.STORED
    assert store.put(offered(Name("n", "k", "3"), b"0123456789"), 0.0) is Outcome.STORED
    assert store.get(Name("n", "k", "0"), 0.0) is None
    assert store.put(offered(Name("n", "k", "4"), b"0123456789"), 0.0) is Outcome.FULL
    assert store.put(offered(Name("n", "k", "5"), b"x" * 21), 0.0) is Outcome.TOO_LARGE
    assert store.put(offered(Name("n", "k", "4"), b"0123456789", now=200.0), 200.0) is Outcome.STORED
    statistics = store.statistics()
    assert (statistics.copies_evicted, statistics.refused_full, statistics.refused_too_large) == (1, 1, 1)
    assert statistics.bytes <= room


def test_the_number_of_objects_is_bounded_too() -> None:
    store = ObjectStore(StoreLimits(objects_max=2))
    outcomes = [store.put(offered(Name("n", "k", str(n))), 0.0) for n in range(3)]
    assert outcomes == [Outcome.STORED, Outcome.STORED, Outcome.FULL]
    assert store.put(offered(Name("n", "k", "0"), b"other", now=1.0), 1.0) is Outcome.REPLACED


def test_a_scan_and_what_is_new_since_see_every_value_once() -> None:
    store = ObjectStore(StoreLimits())
    for n in range(10):
        store.put(offered(Name("n", str(n % 3), str(n)), b"first"), 0.0)
    scan = store.scan(Prefix("n"))
    seen = [stored.value for stored in scan.next(4, 0.0)]
    store.put(offered(Name("n", "0", "new"), b"second", now=1.0), 1.0)
    replaced = [
        n for n in range(10) if store.put(offered(Name("n", str(n % 3), str(n)), b"third", now=1.0), 1.0)
    ]
    assert len(replaced) == 10
    while not scan.finished:
        seen += [stored.value for stored in scan.next(4, 1.0)]
    assert seen == [b"first"] * 4


def test_memory_charged_is_near_memory_used() -> None:
    import tracemalloc

    store = ObjectStore(StoreLimits())
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for n in range(5000):
        store.put(offered(Name("namespace", f"key{n}", f"{n}"), b"%100d" % n, lifetime_s=50 + n % 30), 0.0)
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert 0.7 < store.bytes / used < 1.5, (store.bytes / 5000, used / 5000)
