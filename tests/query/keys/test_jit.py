"""Compiled loops where their cache cannot be kept: a read-only root, a full disk, a file that broke off."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numba")
ROOT = Path(__file__).resolve().parents[3]

LOOP = """
from query.keys.jit import jit
@jit
def total(count):
    found = 0
    for number in range(count):
        found += number
    return found
"""
FULL = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))"


def run(path: Path, *before: str, after: str = "") -> None:
    module = path / "loop.py"
    if not module.exists():
        module.write_text(LOOP)
    lines = ("from loop import total", *before, "assert total(5) == 10", after)
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(path)]),
        "NUMBA_CACHE_DIR": str(path / "cache"),
    }
    script = [sys.executable, "-c", "\n".join(lines)]
    done = subprocess.run(script, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr


def kept(path: Path) -> list[Path]:
    return [file for file in (path / "cache").rglob("*.nb?") if file.stat().st_size]


def test_a_loop_is_compiled_once_and_kept(tmp_path: Path) -> None:
    run(tmp_path)
    assert len(kept(tmp_path)) == 2
    run(tmp_path, after="assert total.stats.cache_hits, total.stats")


def test_a_full_disk_keeps_nothing_and_stops_nothing(tmp_path: Path) -> None:
    run(tmp_path, FULL)
    assert not kept(tmp_path)


def test_a_cache_that_broke_off_is_made_again(tmp_path: Path) -> None:
    run(tmp_path)
    for file in kept(tmp_path):
        file.write_bytes(b"")
    run(tmp_path)
