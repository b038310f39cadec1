"""The Spark part of `pier demo`: one session that feeds two tables and, when told, collects a summary.

    python -m pyspark_pier.demo_job NODES REPUTATION LOGS OUTPUT

Speaks JSON, a line a step, on stdout; a line on stdin with a query says that it is time to collect.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from pyspark_pier.log_files import read_logs
from pyspark_pier.session import pier_session

#: One copy beside the first, so that a node that dies takes nothing with it.
COPIES = "1"
LIFETIME_S = "600"


def main(nodes: str, reputation: str, logs: str, output: str) -> int:
    began_s = time.monotonic()
    spark = pier_session("pier demo", settings={"spark.ui.enabled": "false", "spark.log.level": "OFF"})
    spark.sparkContext.setLogLevel("OFF")
    _say("session", began_s)

    def feed(table: str, rows: Any) -> None:
        began_s = time.monotonic()
        options = {"nodes": nodes, "table": table, "key": "src", "copies": COPIES, "lifetime": LIFETIME_S}
        rows.write.format("pier").options(**options).mode("append").save()
        _say(table, began_s)

    feed("reputation", spark.read.parquet(reputation))
    events, counts = read_logs(spark, [logs])
    feed("history", events)
    _say("lines", began_s, **counts.figures())
    query = sys.stdin.readline().strip()
    if query:
        began_s = time.monotonic()
        summary = spark.read.format("pier").options(nodes=nodes, query=query).load()
        summary.write.mode("overwrite").parquet(output)
        rows = [row.asDict() for row in spark.read.parquet(output).orderBy("hour").collect()]
        _say("collected", began_s, rows=[{**row, "hour": str(row["hour"])} for row in rows])
    spark.stop()
    return 0


def _say(step: str, began_s: float, **more: Any) -> None:
    print(json.dumps({"step": step, "seconds": round(time.monotonic() - began_s, 1), **more}), flush=True)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:5]))
