"""A session made in another folder than the checkout, with nothing but what is installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

JOB = """
from pyspark_pier.session import pier_session
spark = pier_session("elsewhere", "local[1]", {"spark.ui.enabled": "false"})
try:
    spark.read.format("pier").load()
except Exception as error:
    print(error)
spark.stop()
"""


def test_the_source_is_known_without_the_checkout_in_the_path(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    told = subprocess.run(
        [sys.executable, "-c", JOB],
        cwd=tmp_path,
        env={**environment, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "DATA_SOURCE_NOT_FOUND" not in told.stdout
    assert "pyspark_pier/options.py" in told.stdout, "the source's own complaint about missing options"
