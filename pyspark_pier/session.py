"""A Spark session that works with this source as it is: Java found, Python named, pushdown on, the source known."""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

from pyspark_pier.java import use_java
from pyspark_pier.source import PierDataSource

#: Where work is done when nobody names a master: here, on all cores, each task tried four times as on a cluster.
MASTER = "local[*,4]"
SETTINGS = {
    # Without it a source that takes filters is refused.
    "spark.sql.python.filterPushdown.enabled": "true",
    # Measured: 9-17 ms a task instead of 25-30.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.ui.showConsoleProgress": "false",
}


def pier_session(
    name: str, master: str | None = None, settings: dict[str, str] | None = None
) -> SparkSession:
    """The session. Under spark-submit master and settings come from there; those given here count only without."""
    use_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    for key, value in {**SETTINGS, **(settings or {})}.items():
        builder = builder.config(key, value)
    submitted = "SPARK_SUBMIT_OPTS" in os.environ or "PYSPARK_GATEWAY_PORT" in os.environ
    if not submitted:
        builder = builder.master(master or MASTER)
    spark = builder.getOrCreate()
    # Spark finds sources by itself only among packages in its workers' path: not in a zip of --py-files, and not in a
    # checkout that is installed as editable.
    spark.dataSource.register(PierDataSource)
    return spark
