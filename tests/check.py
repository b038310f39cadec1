"""Everything CI checks, in the order that fails fastest: `./run test`.

With arguments only pytest runs, with those arguments: `./run test tests/ufl -k round`.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
#: Worker processes of pytest; more than the cores of a small machine only adds noise.
WORKERS = "2"

PYTEST = [sys.executable, "-m", "pytest", "-n", WORKERS, "--dist", "worksteal"]
CHECKS: list[tuple[str, list[str]]] = [
    ("ruff", [str(BIN / "ruff"), "check", "."]),
    ("format", [str(BIN / "ruff"), "format", "--check", "--quiet", "."]),
    ("imports", [str(BIN / "lint-imports"), "--no-cache"]),
    ("types", [str(BIN / "mypy")]),
    ("tests", PYTEST),
]


def run(name: str, command: list[str]) -> bool:
    started_s = time.monotonic()
    print(f"== {name}: {' '.join(Path(part).name for part in command)}", flush=True)
    code = subprocess.run(command, cwd=ROOT, check=False).returncode
    print(
        f"== {name}: {'ok' if code == 0 else f'FAILED ({code})'} {time.monotonic() - started_s:.0f} s",
        flush=True,
    )
    return code == 0


def main(arguments: list[str]) -> int:
    if arguments:
        return subprocess.run([*PYTEST[:3], *arguments], cwd=ROOT, check=False).returncode
    failed = [name for name, command in CHECKS if not run(name, command)]
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
