"""Members that are not on the ring, as answers tell of them."""

from __future__ import annotations

import msgspec
import pytest

import ufl
from overlay.dht.operations import PutObject
from overlay.objects.name import Name
from overlay.ring import MASK, from_wire
from overlay.roster.book import Book
from overlay.roster.config import RosterConfig
from overlay.roster.member import TABLES_MAX, Member, Profile, described
from overlay.spread.account import Account as Coverage
from overlay.stack import OverlayConfig
from query.batch import from_pydict
from query.causes import Cause
from query.engine.absentees import NAMED_MAX, Reading, absentees, reading_of
from query.engine.account import Account
from query.engine.describing import LIFETIME_S
from query.plan import Plan
from tests.query.engine.cluster import Cluster
from tests.sql.test_node import Node

LOCAL = "%opgraph(all) {{ %operator(s) {{ type = scan implementation = Local table = {table} }} {rest} }}"
RESULT = "%operator(r) { type = result sources[0] = s }"


def plan(text: str) -> Plan:
    return ufl.expand(ufl.parse(text), query_id="q1", query_time_s=0)


def local(table: str) -> Plan:
    return plan(LOCAL.format(table=table, rest=RESULT))


PUBLISHED = "%opgraph(all) { %operator(s) { type = scan implementation = DHT ns = kept } " + RESULT + "}"


class Members(Cluster):
    """Host n brings the table `fw`; the last two bring `dns` as well."""

    def __init__(self, count: int) -> None:
        super().__init__(count, config=OverlayConfig(roster=RosterConfig()))
        self.load("fw", [from_pydict("fw", {"n": [n]}) for n in range(count)])
        self.load("dns", [])
        for number, node in enumerate(self.nodes):
            assert node.overlay.roster is not None
            tables = ("fw", "dns") if number >= count - 2 else ("fw",)
            node.overlay.roster.describe(Profile(f"host-{number}", "1.0", "", tables))
        self.world.run_for(20.0)

    def kill(self, number: int) -> None:
        self.world.crash(self.hosts[number])
        self.world.run_for(30.0)

    def account(self, asked: Plan, at: int = 0) -> Account:
        account = self.answer(asked, at=at).account
        assert account is not None
        assert account.asked == account.answered + account.empty + account.failed + account.unreachable
        return account


def test_a_lost_member_is_named_where_it_may_have_had_rows() -> None:
    cluster = Members(6)
    assert cluster.account(local("fw")).ended == "complete"
    cluster.kill(2)
    lacking = cluster.account(local("fw"))
    assert (lacking.ended, lacking.asked, lacking.absent) == ("partial", 5, 1)
    name = f"host-2 ({cluster.nodes[2].overlay.router.me.id.hex()[:12]})"
    assert lacking.absent_hosts == (name,)
    assert lacking.errors == (f"expected and was not on the ring: {name} (pier members)",)
    # It brings no `dns`: that answer is whole, and says all the same that a member was not there.
    whole = cluster.account(local("dns"))
    assert (whole.ended, whole.asked, whole.absent, whole.errors) == ("complete", 5, 1, ())


def test_any_member_may_have_kept_a_part_of_a_published_table() -> None:
    cluster = Members(6)
    cluster.kill(2)
    assert cluster.account(plan(PUBLISHED)).ended == "partial"
    values = 'type = scan implementation = Values columns[0] = x values[0] = "1"::long'
    assert (
        cluster.account(plan(f"%opgraph(all) {{ %operator(s) {{ {values} }} {RESULT} }}")).ended == "complete"
    )


def test_a_partition_does_not_make_a_published_table_empty() -> None:
    cluster = Members(6)
    put = [PutObject(Name("kept", f"k{n}", "0"), b"", 600.0) for n in range(40)]
    cluster.nodes[3].overlay.publisher.publish(put, lambda codes: None)
    cluster.world.run_for(5.0)
    cluster.world.faults.partitions.cut([0], range(1, 6))
    cluster.world.run_for(60.0)
    account = cluster.account(plan(PUBLISHED))
    assert (account.ended, account.asked, account.absent) == ("partial", 1, 5)


def test_a_question_for_one_key_lacks_its_owner_and_nobody_else() -> None:
    cluster = Members(6)
    cluster.kill(2)
    owner = from_wire(cluster.nodes[2].overlay.router.me.id)
    scan = "%operator(s) {{ type = scan implementation = DHT ns = kept }} {r}"
    asked = '%opgraph(all) {{ ns = kept rid = "{key}" ' + scan + " }}"
    keys = [f"k{n}" for n in range(60)]
    lacking = set()
    for key in keys:
        account = cluster.account(plan(asked.format(key=key, r=RESULT)))
        if account.absent:
            assert (account.ended, account.causes[Cause.ABSENT]) == ("partial", 1)
            lacking.add(key)
    assert lacking == {key for key in keys if _owner(cluster, key) == owner}
    assert 0 < len(lacking) < len(keys)


def _owner(cluster: Cluster, key: str) -> int:
    """Who owned a key when everybody was there."""
    from overlay.ring import distance, routing_id

    ids = [from_wire(node.overlay.router.me.id) for node in cluster.nodes]
    return min(ids, key=lambda each: distance(routing_id("kept", key) & MASK, each))


def test_what_the_asker_fetches_by_itself_lacks_whoever_is_lost() -> None:
    text = """
%opgraph(all) { at = asker
    %operator(s) { type = scan implementation = Index ns = kept index = by_v using = hash
        low = "1"::long high = "1"::long }
    %operator(r) { type = result sources[0] = s } }
"""
    assert reading_of(plan(text)) == Reading(frozenset(), ring=True, fetched=True)
    cluster = Members(6)
    cluster.kill(2)
    assert cluster.account(plan(text)).absent == 1


@pytest.mark.parametrize("reading", [Reading(frozenset({"t"})), Reading(ring=True)])
def test_members_beyond_those_named_may_have_had_anything(reading: Reading) -> None:
    named = tuple(bytes([n]) * 20 for n in range(20))
    found = absentees(Coverage(absent=1_000, absent_nodes=named), reading, Book())
    assert (found.count, found.lacking, len(found.names)) == (1_000, 1_000, NAMED_MAX)
    assert "and 984 more" in found.text()


def test_who_was_asked_in_vain_is_not_absent_as_well() -> None:
    one, other = b"1" * 20, b"2" * 20
    coverage = Coverage(unreachable=1, unreachable_nodes=(one,), absent=2, absent_nodes=(one, other))
    found = absentees(coverage, Reading(ring=True), Book())
    assert (found.count, found.names) == (1, (other.hex()[:12],))


def test_a_member_with_more_tables_than_it_can_name_may_have_any() -> None:
    bare = Member(b"1" * 20, "a:1", 1, 0)
    many = described(bare, Profile(tables=tuple(f"t{n}" for n in range(TABLES_MAX + 1))))
    long = described(bare, Profile(tables=("x" * 200,)))
    few = described(bare, Profile(tables=("t1",)))
    wanted = Reading(frozenset({"other"}))
    assert [wanted.lacks(each) for each in (many, long, few, None)] == [True, True, False, True]
    assert not Reading().lacks(many)
    assert len(msgspec.msgpack.encode(many)) < 1_000


def test_it_is_said_with_a_cause() -> None:
    assert Cause.ABSENT.loses_rows


def test_a_table_that_only_an_absent_member_brings_is_not_unknown() -> None:
    cluster = Members(6)
    for number, tables in enumerate(cluster.tables):
        if number < 4:
            del tables.tables["dns"]
    for number in (4, 5):
        cluster.kill(number)
    cluster.world.run_for(LIFETIME_S)
    for text in ("SELECT count(*) AS n FROM dns", "SELECT count(*) AS n FROM dns"):
        asked = Node(cluster, 0).ask(text)
        assert asked.failure is None and asked.account is not None
        assert (asked.account.ended, asked.account.absent) == ("partial", 2)
        assert "host-4" in " ".join(asked.account.notes)
