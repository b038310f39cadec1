"""Spark in and out of PIER: the data source `pier`, and what its commands are made of.

    spark.read.format("pier").option("nodes", "host:7701").option("query", "SELECT …").load()
    df.write.format("pier").option("table", "t").option("key", "src").mode("append").save()

Spark finds `DefaultSource` by itself where this package is installed; elsewhere register it:
`spark.dataSource.register(pyspark_pier.PierDataSource)`. Everything here is a client of nodes, like any other.
"""

try:
    import pyspark.sql.datasource  # noqa: F401
except ModuleNotFoundError as error:
    raise ImportError(f"{error}; Spark comes with the extra: pip install 'pier[spark]'") from None

from pyspark_pier.ring_placement import placed
from pyspark_pier.source import PierDataSource

#: The name under which Spark looks for a source in packages that are called pyspark_….
DefaultSource = PierDataSource

__all__ = ["DefaultSource", "PierDataSource", "placed"]
