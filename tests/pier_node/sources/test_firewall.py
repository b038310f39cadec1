"""A firewall log as a table: scans, followers, restarts, lines that do not parse."""

from __future__ import annotations

import gzip
from pathlib import Path

from pier_node.logs import generate
from pier_node.sources.firewall import POLL_S, RESUME_WAIT_S, SAVE_S, FirewallLog
from pier_node.sources.log_scan import LogOptions
from pier_node.sources.positions import Positions
from pier_node.sources.unparsed import UnparsedLines
from query.batch import Batch
from query.causes import Cause
from query.engine.node import NODE_MESSAGES
from runtime.message import Codec
from runtime.sim import World, star
from tests.query.engine.cluster import Cluster
from ufl.sql import compile_sql

START_US = 1_704_067_200_000_000


def lines(count: int, seed: int = 1, dialect: str = "ufw") -> bytes:
    return generate(dialect, seed=seed, start_us=START_US, count=count)


class Node:
    """A simulated host that has a log."""

    def __init__(self, folder: Path, options: LogOptions | None = None) -> None:
        self.world = World(seed=1, topology=star(0.01), codec=Codec(NODE_MESSAGES))
        self.path = folder / "ufw.log"
        self.options = options or LogOptions()
        self.positions = Positions(folder / "data")
        self.log = self.start()

    def start(self) -> FirewallLog:
        clock = self.world.add_host().runtime
        self.log = FirewallLog("fw", self.path, clock, self.options, self.positions)
        self.log.start()
        return self.log

    def append(self, data: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(data)


def rows(batches: list[Batch]) -> int:
    return sum(batch.num_rows for batch in batches)


def test_a_scan_reads_what_is_there(tmp_path: Path) -> None:
    node = Node(tmp_path)
    assert list(node.log.scan(None)) == []
    node.append(lines(5_000))
    found = list(node.log.scan(None))
    assert rows(found) == 5_000
    assert all(batch.table == "fw" and batch.schema == node.log.schema() for batch in found)
    figures = node.log.statistics()
    assert (figures.scans, figures.scanned_lines, figures.scanned_unparsed) == (2, 5_000, 0)


def test_history_is_read_when_asked_for(tmp_path: Path) -> None:
    (tmp_path / "ufw.log.2.gz").write_bytes(gzip.compress(lines(300, seed=2)))
    (tmp_path / "ufw.log.1").write_bytes(lines(20, seed=3))
    node = Node(tmp_path, LogOptions(history=True))
    node.append(lines(7))
    assert rows(list(node.log.scan(None))) == 327
    (tmp_path / "ufw.log.2.gz").write_bytes(gzip.compress(lines(300, seed=2))[:-500])
    assert 27 <= rows(list(node.log.scan(None))) < 327
    assert node.log.statistics().errors == 1
    told: list[tuple[int, str, Cause]] = []
    list(node.log.scan_telling(None, lambda *lost: told.append(lost)))
    assert told == [(1, "ufw.log.2.gz is damaged", Cause.NOT_READ)], "rows are missing from the answer"


def test_a_query_over_a_damaged_archive_is_partial(tmp_path: Path) -> None:
    (tmp_path / "ufw.log.1.gz").write_bytes(gzip.compress(lines(300, seed=2))[:-500])
    node = Node(tmp_path, LogOptions(history=True))
    node.append(lines(7))
    cluster = Cluster(2)
    cluster.tables[1].tables["fw"] = node.log  # type: ignore[assignment]
    account = cluster.answer(compile_sql("SELECT count(*) FROM fw", "q", 0, None).plan).account
    assert account is not None
    assert (account.ended, account.causes) == ("partial", {Cause.NOT_READ: 1})


def test_followers_get_events_within_a_second_through_a_rotation(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.append(lines(10))
    node.world.run_for(1.0)
    got: list[Batch] = []
    stop = node.log.follow(got.append)
    node.append(lines(5))
    node.world.run_for(2 * POLL_S)
    assert rows(got) == 5
    node.path.rename(tmp_path / "ufw.log.1")
    node.append(lines(3))
    node.world.run_for(1.0)
    assert rows(got) == 8
    stop()
    node.append(lines(2))
    node.world.run_for(1.0)
    assert rows(got) == 8
    figures = node.log.statistics()
    assert (figures.dialect, figures.parsed, figures.rotations, figures.followers) == ("ufw", 20, 1, 0)


def test_a_restarted_node_goes_on_where_it_stopped(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.append(lines(4))
    node.world.run_for(1.0)
    node.log.close()
    node.append(lines(6))
    again = node.start()
    node.world.run_for(5.0)
    got: list[Batch] = []
    again.follow(got.append)
    node.world.run_for(1.0)
    assert rows(got) == 6


def test_after_a_crash_at_most_a_second_comes_twice(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.append(lines(4))
    node.world.run_for(SAVE_S + POLL_S)
    node.append(lines(6))
    again = node.start()
    got: list[Batch] = []
    again.follow(got.append)
    node.world.run_for(1.0)
    assert rows(got) == 6


def test_followers_that_do_not_come_back_are_not_waited_for(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.append(lines(4))
    node.world.run_for(1.0)
    node.log.close()
    node.append(lines(6))
    again = node.start()
    node.world.run_for(RESUME_WAIT_S + 1.0)
    got: list[Batch] = []
    again.follow(got.append)
    node.world.run_for(1.0)
    assert got == [] and again.statistics().parsed == 6


def test_columns_named_in_the_header_are_known_in_the_middle_of_the_file(tmp_path: Path) -> None:
    whole = lines(20, dialect="windows")
    node = Node(tmp_path)
    node.append(whole)
    node.log.close()
    again = node.start()
    got: list[Batch] = []
    again.follow(got.append)
    node.append(whole[whole.index(b"\n20") + 1 :])
    node.world.run_for(1.0)
    assert rows(got) >= 20
    assert again.statistics().dialect == "windows"


def test_lines_that_do_not_parse_are_counted_kept_and_asked_for(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.append(lines(50))
    node.world.run_for(1.0)
    node.append(b"no event at all\n" * 1_000 + lines(1))
    node.world.run_for(1.0)
    figures = node.log.statistics()
    assert (figures.lines, figures.parsed, figures.unparsed) == (1_051, 51, 1_000)
    list(node.log.scan(None))
    (kept,) = UnparsedLines("fw.unparsed", node.log).scan(None)
    assert kept.num_rows == 512
    assert {(row["seen"], row["text"]) for row in kept.to_rows()} == {
        ("follow", "no event at all"),
        ("scan", "no event at all"),
    }


def test_a_file_that_is_no_firewall_log_is_said_to_be_none(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.append(b"Dear diary, nothing happened today.\n" * 10_000)
    try:
        list(node.log.scan(None))
        raise AssertionError("scanned")
    except ValueError as error:
        assert "no known firewall dialect" in str(error) and "ufw.log" in str(error)
    node.world.run_for(2.0)
    figures = node.log.statistics()
    assert figures.unparsed == figures.lines > 0
    assert len(node.log._undetected) < 1 << 20


def test_a_named_dialect_is_taken_at_its_word(tmp_path: Path) -> None:
    node = Node(tmp_path, LogOptions(dialect="iptables", host="gw"))
    node.append(b"Dear diary\n")
    assert rows(list(node.log.scan(None))) == 0
    assert node.log.statistics().dialect == "iptables"
