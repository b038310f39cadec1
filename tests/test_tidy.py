"""Reads the source as a reviewer would: sizes, unfinished business, clocks and randomness off the edges."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("runtime", "overlay", "query", "ufl", "pier_node", "cli", "pyspark_pier")
MODULE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70
#: Text that never lands. Split so that this file does not name itself.
UNFINISHED = ("TO" + "DO", "FIX" + "ME", "X" + "XX", "NotImplemented" + "Error")
#: Reads of the wall clock or of global state that an import contract cannot see.
CLOCKS = re.compile(
    r"datetime\.(now|utcnow|today)\(|date\.today\(|os\.urandom\(|uuid\.uuid[14]\(|np\.random\."
)
#: Where node code ends and the world begins.
EDGES = ("runtime/native/", "pier_node/", "cli/", "pyspark_pier/")


def sources(*packages: str) -> Iterator[Path]:
    for package in packages:
        yield from sorted((ROOT / package).rglob("*.py"))


def test_no_module_is_too_long_to_hold_in_mind() -> None:
    long = [
        f"{path.relative_to(ROOT)}: {count}"
        for path in sources(*PACKAGES, "bench")
        if (count := path.read_text().count("\n")) > MODULE_LINES_MAX
    ]
    assert not long, long


def test_every_function_fits_on_a_screen() -> None:
    long = []
    for path in sources(*PACKAGES):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > FUNCTION_LINES_MAX:
                    long.append(f"{path.relative_to(ROOT)}:{node.lineno} {node.name} {lines}")
    assert not long, long


def test_pages_that_the_source_names_are_there() -> None:
    """A reader who follows a reference finds something; notes that are not part of the project are no reference."""
    lost = []
    for path in sources(*PACKAGES, "bench", "tests"):
        text = path.read_text()
        for page in re.findall(r"docs/[\w/-]+(?:\.md)?", text):
            found = (ROOT / page).exists() or any(ROOT.glob(f"{page}-*.md")) or any(ROOT.glob(f"{page}.*"))
            if not found:
                lost.append(f"{path.relative_to(ROOT)}: {page}")
        lost += [f"{path.relative_to(ROOT)}: {word}" for word in re.findall("DESI" + r"GN D\d+", text)]
    assert not lost, lost


def test_every_module_says_what_it_is() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in sources(*PACKAGES, "bench")
        if path.read_text().strip() and ast.get_docstring(ast.parse(path.read_text())) is None
    ]
    assert not silent, silent


@pytest.mark.parametrize("word", UNFINISHED)
def test_nothing_is_left_unfinished(word: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sources(*PACKAGES, "bench", "tests")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(rf"\b{word}\b", line)
    ]
    assert not found, found


def test_no_exception_is_swallowed_whole() -> None:
    bad = []
    for path in sources(*PACKAGES):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ExceptHandler):
                broad = node.type is None or (
                    isinstance(node.type, ast.Name) and node.type.id in ("Exception", "BaseException")
                )
                if broad and all(isinstance(statement, ast.Pass) for statement in node.body):
                    bad.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert not bad, bad


def test_clocks_and_chance_stay_at_the_edges() -> None:
    bad = [
        f"{path.relative_to(ROOT)}:{number} {line.strip()}"
        for path in sources(*PACKAGES)
        if not str(path.relative_to(ROOT)).startswith(EDGES)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if CLOCKS.search(line)
    ]
    assert not bad, bad


def test_the_tree_holds_only_the_rooms_it_should() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if tracked.returncode != 0:
        pytest.skip("not a git checkout")
    rooms = {name.split("/")[0] for name in tracked.stdout.splitlines() if "/" in name}
    allowed = {*PACKAGES, "bench", "docker", "docs", "scenarios", "tests", ".ci"}
    assert rooms <= allowed, rooms - allowed
