"""The data source `pier`: options in, readers and writers out."""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from pyspark_pier.options import read_options, write_options
from pyspark_pier.reader import PierReader, describe, sampled_columns
from pyspark_pier.spark_types import spark_schema
from pyspark_pier.stream_reader import PierStreamReader
from pyspark_pier.worker_memory import keep_lasting
from pyspark_pier.writer import PierStreamWriter, PierWriter


class PierDataSource(DataSource):
    """`format("pier")`; docs/spark.md says what each option does."""

    @classmethod
    def name(cls) -> str:
        return "pier"

    def schema(self) -> StructType:
        keep_lasting()
        options = read_options(self.options)
        columns = describe(options).columns
        return spark_schema(sampled_columns(options) if columns is None else columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        keep_lasting()
        return PierReader(read_options(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        keep_lasting()
        return PierWriter(write_options(self.options), schema, overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return PierStreamReader(read_options(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        return PierStreamWriter(write_options(self.options), schema)
