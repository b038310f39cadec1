"""Long texts as keys: they are found, joined and indexed like others, and never take rows of others with them."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from overlay.dht.messages import NAME_CHARS_MAX, Code
from overlay.dht.operations import GetObject, Got, PutObject, RenewObject
from overlay.objects.name import Name
from query.batch import from_arrow
from query.batch.key_text import KEY_CHARS_MAX, UnfitKey, key_texts
from query.index.service import LOOK_S
from tests.query.engine.cluster import Cluster
from tests.sql.harness import Sql
from tests.sql.test_join_strategies import publish
from tests.sql.test_node import Node

LENGTHS = (1, 40, KEY_CHARS_MAX, KEY_CHARS_MAX + 1, NAME_CHARS_MAX, NAME_CHARS_MAX + 1, 5_000, 70_000)


def texts(count: int, seed: int = 1) -> list[str]:
    """Texts of all lengths; the long ones begin alike, so that only all of a text tells it apart."""
    rng = random.Random(seed)
    return [
        f"{'é' * (rng.choice(LENGTHS) - 8)}{number:08}" if number % 4 == 0 else f"short {number}"
        for number in range(count)
    ]


@pytest.mark.parametrize("strategy", ["fetch", "hash"])
def test_a_join_by_a_column_with_long_texts_finds_every_row(strategy: str) -> None:
    sql = Sql(4, seed=3, serialise=True)
    names = texts(60)
    sql.load("r", pa.table({"name": names, "n": list(range(60))}))
    publish(sql, "p", pa.table({"name": names, "m": list(range(60))}), "name")
    sql.check(f"SELECT /*+ JOIN({strategy}) */ r.n, p.m FROM r JOIN p ON r.name = p.name")


def test_a_condition_on_a_long_key_goes_to_its_owner_and_finds_the_row() -> None:
    node = Node(Cluster(5, seed=2, serialise=True), 1)
    names = texts(40)
    node.publish("t", {"name": names, "two": [name[:900] for name in names], "n": list(range(40))}, "name")
    node.publish("u", {"a": names, "b": names, "n": list(range(40))}, "a", "b")
    for number in (0, 8, 12, 39):
        found = node.ask("SELECT n FROM t WHERE name = :name", name=names[number])
        assert [row["n"] for row in found.rows] == [number]
        both = node.ask("SELECT n FROM u WHERE a = :name AND b = :name", name=names[number])
        assert [row["n"] for row in both.rows] == [number]
        assert both.account is not None and both.account.asked == 1


def test_a_hash_index_of_a_column_with_long_texts_has_every_row() -> None:
    cluster = Cluster(5, seed=2, serialise=True)
    node = Node(cluster, 1)
    names = texts(80)
    node.publish("t", {"k": list(range(80)), "name": names}, "k")
    assert node.ask("CREATE INDEX by_name ON t (name) USING hash").failure is None
    cluster.world.run_for(3 * LOOK_S)
    for number, name in enumerate(names):
        if number % 4 == 0 or number % 10 == 1:
            found = node.ask("SELECT k FROM t WHERE name = :name", name=name)
            assert [row["k"] for row in found.rows] == [number], len(name)


def test_every_key_fits_a_name_and_equal_rows_have_equal_keys() -> None:
    names = texts(100)
    keys = key_texts([pa.array(names)])
    assert max(map(len, keys)) <= KEY_CHARS_MAX < NAME_CHARS_MAX
    assert len(set(keys)) == 100
    assert key_texts([pa.array(names).slice(8, 1)]) == keys[8:9]
    assert [key for key, name in zip(keys, names, strict=True) if len(name) <= KEY_CHARS_MAX] == [
        name for name in names if len(name) <= KEY_CHARS_MAX
    ]
    two = key_texts([pa.array(names), pa.array(range(100))])
    assert max(map(len, two)) <= KEY_CHARS_MAX and len(set(two)) == 100


@pytest.mark.parametrize(
    "values",
    [
        [b"\xff\xfe", b"plain", None, b"\x00" * 3_000],
        [1.5, -0.0, None],
        [None, None],
    ],
)
def test_keys_of_odd_kinds_are_texts_of_their_own(values: list[Any]) -> None:
    column = pa.array(values)
    keys = key_texts([column])
    assert len(set(keys)) == len(set(values))
    assert max(map(len, keys)) <= KEY_CHARS_MAX


def test_codes_of_one_long_name_do_not_concern_the_others() -> None:
    """A name that nobody could read ends alone, as what it is, before it travels."""
    cluster = Cluster(4, seed=1, serialise=True)
    node = Node(cluster, 0)
    dht = node.cluster.nodes[0].overlay.dht
    long = "x" * (NAME_CHARS_MAX + 1)
    names = [Name("t", f"k{number}", "s") for number in range(50)]
    bad = [Name(long, "k", "s"), Name("t", long, "s"), Name("t", "k", long)]
    every = [*names[:25], *bad, *names[25:]]
    codes: list[Code] = []
    dht.put_many([PutObject(name, b"v", 60.0) for name in every], codes.extend)
    cluster.world.run_for(2.0)
    wanted = [Code.LONG_NAME if name in bad else Code.OK for name in every]
    assert codes == wanted
    codes.clear()
    dht.renew_many([RenewObject(name, 60.0) for name in every], codes.extend)
    cluster.world.run_for(2.0)
    assert codes == wanted
    got: list[Got] = []
    dht.get_many([GetObject(name.namespace, name.key, name.suffix) for name in every], got.extend)
    cluster.world.run_for(2.0)
    assert [each.code for each in got] == wanted
    arrived: list[bool] = []
    dht.send_many([PutObject(name, b"v", 60.0) for name in every], arrived.append)
    cluster.world.run_for(2.0)
    assert arrived == [False], "not all of them arrived, and the caller hears it"
    assert sum(each.overlay.dht.statistics().store.objects for each in cluster.nodes) >= 50


def test_a_column_that_cannot_place_rows_is_told_by_name() -> None:
    batch = from_arrow(
        "t", pa.record_batch({"d": pa.array([pa.MonthDayNano([1, 2, 3])]), "l": pa.array([[1]])})
    )
    for name in ("d", "l"):
        with pytest.raises(UnfitKey, match=r"interval|list"):
            key_texts([batch.column(name)])
