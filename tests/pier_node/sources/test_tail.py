"""A log that is written, renamed, copied, truncated, packed and left alone: every line comes once, in order."""

from __future__ import annotations

import gzip
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pier_node.sources.rotation import history
from pier_node.sources.tail import PARTIAL_BYTES_MAX, QUIET_READS, Tail


class Log:
    """A log and whoever writes it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "fw.log"
        self.path.touch()
        self.written: list[bytes] = []

    def write(self, lines: int = 1) -> None:
        for _ in range(lines):
            line = b"line %d" % len(self.written)
            self.written.append(line)
            with self.path.open("ab") as file:
                file.write(line + b"\n")

    def shift(self) -> Path:
        """Makes room for a new first rotated file."""
        for each in history(self.path):
            number, _, packed = each.name.removeprefix("fw.log.").partition(".")
            each.rename(each.with_name(f"fw.log.{int(number) + 1}" + (f".{packed}" if packed else "")))
        return self.path.with_name("fw.log.1")

    def rename(self) -> None:
        self.path.rename(self.shift())
        self.path.touch()

    def copy_and_truncate(self) -> None:
        shutil.copyfile(self.path, self.shift())
        with self.path.open("r+b") as file:
            file.truncate(0)

    def pack(self) -> None:
        for each in history(self.path):
            if each.suffix != ".gz":
                each.with_name(each.name + ".gz").write_bytes(gzip.compress(each.read_bytes()))
                each.unlink()


class Reader:
    def __init__(self, path: Path) -> None:
        self.tail = Tail(path)
        self.tail.begin(None)
        self.lines: list[bytes] = []

    def read(self) -> None:
        """Reads until nothing comes, also not from files that were rotated away empty."""
        quiet = 0
        while quiet <= QUIET_READS + len(history(self.tail.path)):
            data = self.tail.read()
            quiet = 0 if data else quiet + 1
            self.lines += data.splitlines()

    def restart(self) -> None:
        position = self.tail.position()
        self.tail.close()
        self.tail = Tail(self.tail.path)
        self.tail.begin(position)


STEPS = st.lists(
    st.sampled_from(("write", "write", "read", "rename", "copy", "pack", "restart")), max_size=25
)


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_every_line_comes_once_and_in_order(steps: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        log = Log(Path(folder))
        reader = Reader(log.path)
        reader.read()
        for step in steps:
            if step == "write":
                log.write(3)
            elif step == "read":
                reader.read()
            elif step == "rename":
                log.rename()
            elif step == "copy":
                # What is written to an empty file and copied away before anybody looked cannot be noticed.
                reader.read()
                log.write()
                reader.read()
                log.write()
                log.copy_and_truncate()
            elif step == "pack":
                # An empty file that was packed before anybody looked has neither inode nor content to be known by.
                reader.read()
                log.pack()
            else:
                reader.read()
                reader.restart()
        reader.read()
        reader.tail.close()
        assert reader.lines == log.written


def test_it_begins_at_the_line_that_is_being_written(tmp_path: Path) -> None:
    path = tmp_path / "fw.log"
    path.write_bytes(b"old\nhalf of")
    tail = Tail(path)
    tail.begin(None)
    assert tail.read() == b""
    with path.open("ab") as file:
        file.write(b" a line\nnext")
    assert tail.read() == b"half of a line\n"
    position = tail.position()
    assert position is not None and position.offset == len(b"old\nhalf of a line\n")
    tail.close()


def test_a_log_may_come_later(tmp_path: Path) -> None:
    tail = Tail(tmp_path / "fw.log")
    tail.begin(None)
    assert tail.read() == b"" and tail.position() is None
    (tmp_path / "fw.log").write_bytes(b"first\n")
    assert tail.read() == b"first\n"
    tail.close()


def test_lines_written_while_nobody_ran_are_found_in_packed_files(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.write(10)
    reader = Reader(log.path)
    log.write(1)
    reader.read()
    position = reader.tail.position()
    reader.tail.close()
    for _ in range(3):
        log.write(2)
        log.rename()
    log.pack()
    log.write(1)
    again = Tail(log.path)
    again.begin(position)
    found = b"".join(again.read() for _ in range(10)).splitlines()
    assert found == log.written[11:]
    again.close()


def test_a_position_that_is_nowhere_is_counted(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.write(3)
    tail = Tail(log.path)
    tail.begin(None)
    position = tail.position()
    tail.close()
    log.path.unlink()
    log.path.write_bytes(b"something else\n")
    again = Tail(log.path)
    again.begin(position)
    assert again.read() == b"something else\n"
    assert again.statistics().lost == 1
    again.close()


def test_a_line_without_end_does_not_grow_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "fw.log"
    path.touch()
    tail = Tail(path)
    tail.begin(None)
    path.write_bytes(b"x" * (5 * PARTIAL_BYTES_MAX))
    read = 0
    for _ in range(10):
        read += len(tail.read())
        assert len(tail._pending) <= PARTIAL_BYTES_MAX
    assert read >= 4 * PARTIAL_BYTES_MAX
    tail.close()


@pytest.mark.parametrize("name", ["fw.log.1", "fw.log.12.gz", "fw.log-20250101", "fw.log-20250101.gz"])
def test_rotated_names_are_known(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    assert history(tmp_path / "fw.log") == [tmp_path / name]


@pytest.mark.parametrize("name", ["fw.log", "fw.log.bak", "fw.logs", "fw.log.1.zip", "other.log.1"])
def test_other_files_are_not_taken_for_history(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    assert history(tmp_path / "fw.log") == []
