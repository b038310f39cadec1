"""A container engine for tests: whether there is one, and images made from this tree.

The base image is made once, by docker/make-base.sh, and stays in the engine; so do the layers with what a node needs.
Only the layer with this tree is new each time. Wheels of what a node needs are kept in the user's cache. Tests that run
side by side wait for each other there.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCKER = ROOT / "docker"
BUILD_TIMEOUT_S = 540.0
_RENAME = "sed -i 's/^Version: .*/Version: {version}/' /opt/pier/pier-*.dist-info/METADATA"


def why_not() -> str:
    """Why containers cannot be had here; empty when they can."""
    if shutil.which("docker") is None:
        return "there is no docker command"
    try:
        asked = ["docker", "version", "--format", "{{.Server.Version}}"]
        found = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=20)
    except subprocess.TimeoutExpired:
        return "the engine does not answer"
    if found.returncode:
        return f"no engine: {found.stderr.strip().splitlines()[-1:] or found.stdout.strip()}"
    with _alone():
        return "" if _has(base_tag()) else _why_no_base()


def _why_no_base() -> str:
    """Makes the base image; why that cannot be done here, where it cannot."""
    if os.geteuid() != 0:
        return "no base image, and making one takes root (docker/make-base.sh)"
    if shutil.which("debootstrap") is None and shutil.which("apt-get") is None:
        return "no base image, and making one takes debootstrap or apt-get (docker/make-base.sh)"
    made = _script("make-base.sh", base_tag())
    said = " / ".join(made.stderr.strip().splitlines()[-3:])
    return f"no base image, and none could be made: {said}" if made.returncode else ""


def docker(*words: str, timeout_s: float = 60.0) -> str:
    run = subprocess.run(
        ["docker", *words], capture_output=True, text=True, check=False, timeout=timeout_s, env=_quiet()
    )
    assert run.returncode == 0, f"docker {' '.join(words)}: {run.stderr.strip() or run.stdout.strip()}"
    return run.stdout.strip()


def base_tag() -> str:
    """A base for each version of the script that makes it."""
    return f"pier-test-base:{_hash((DOCKER / 'make-base.sh').read_bytes())}"


def image(work: Path, version: str) -> str:
    """The image of this tree as a release of that version."""
    return _built(work, version, "node", f"pier-test:{version}")


def spark_image(work: Path) -> str:
    """The image of this tree with Spark and Java."""
    return _built(work, "0.1.0+spark", "spark", "pier-test-spark:0")


def another_release(tag: str, version: str) -> str:
    """What makes an image another release is what it says of itself."""
    fresh = f"pier-test:{version}"
    lines = [f"FROM {tag}", "USER 0", f"RUN {_RENAME.format(version=version)}", "USER 10001:10001"]
    build = ["docker", "build", "-q", "-t", fresh, "-"]
    made = subprocess.run(
        build, input="\n".join(lines), text=True, capture_output=True, check=False, timeout=BUILD_TIMEOUT_S
    )
    assert made.returncode == 0, made.stderr
    return fresh


def _built(work: Path, version: str, target: str, tag: str) -> str:
    context = work / f"context-{version}"
    shutil.copytree(_wheels(target == "spark"), context / "wheels", copy_function=os.link)
    (context / "wheels" / "pier").mkdir()
    _wheel_of_this_tree(work / f"tree-{version}", version, context / "wheels" / "pier")
    words = ["build", "-q", "-f", str(DOCKER / "Dockerfile"), "--target", target, "-t", tag]
    docker(*words, "--build-arg", f"BASE={base_tag()}", str(context), timeout_s=BUILD_TIMEOUT_S)
    return tag


def _wheels(spark: bool = False) -> Path:
    """What a node needs and what installs it, from the cache if the constraints are the same."""
    made_of = (ROOT / "constraints.txt", ROOT / "pyproject.toml", DOCKER / "make-wheels.sh")
    needs = b"".join(file.read_bytes() for file in made_of)
    kept = _cache() / f"wheels-{'spark-' if spark else ''}{_hash(needs)}"
    with _alone():
        if not kept.exists():
            fresh = _cache() / f"making-{os.getpid()}"
            made = _script("make-wheels.sh", *(["--spark"] if spark else []), str(fresh))
            assert made.returncode == 0, made.stderr
            shutil.rmtree(fresh / "pier")
            fresh.rename(kept)
    return kept


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pier-tests"


@contextmanager
def _alone() -> Iterator[None]:
    """One process at a time."""
    _cache().mkdir(parents=True, exist_ok=True)
    with (_cache() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _wheel_of_this_tree(copy: Path, version: str, out: Path) -> None:
    """Built from a copy: its version is another, and building leaves folders behind."""
    ignored = shutil.ignore_patterns(".git", ".venv", "__pycache__", "tests", "bench", "docs", ".*_cache")
    shutil.copytree(ROOT, copy, ignore=ignored)
    project = copy / "pyproject.toml"
    lines = project.read_text().splitlines()
    lines = [f'version = "{version}"' if line.startswith("version = ") else line for line in lines]
    project.write_text("\n".join(lines) + "\n")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(out),
    ]
    subprocess.run([*command, str(copy)], check=True, timeout=BUILD_TIMEOUT_S)


def _script(name: str, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHON": sys.executable}
    command = ["sh", str(DOCKER / name), *words]
    return subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, env=environment
    )


def _has(tag: str) -> bool:
    return bool(subprocess.run(["docker", "images", "-q", tag], capture_output=True, check=False).stdout)


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:12]


def _quiet() -> dict[str, str]:
    """The engine's own notices are of no interest here."""
    return {**os.environ, "DOCKER_CLI_HINTS": "false"}
