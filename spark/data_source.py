"""The data source behind `format("minikafka")`: options decide, source and sink do the work."""

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from .options import OptionError
from .sink import BatchWriter, StreamWriter, check_columns
from .sink_options import parse_sink
from .source import BatchReader, StreamReader, schema_of
from .source_options import check_source, parse_columns, parse_source


class MinikafkaDataSource(DataSource):
    """A cluster's topics as a table: read and write, batch and streaming.

    Options are those of Spark's Kafka connector; `docs/spark.md` lists them.
    """

    @classmethod
    def name(cls) -> str:
        """Name the format, for `spark.read.format`."""
        return "minikafka"

    def schema(self) -> StructType:
        """Give the connector's schema, or the part of it that `columns` names.

        `headers` only where `includeHeaders` asks for it. Spark asks readers only, for each frame
        that is made: wrong options are refused here already.
        """
        check_source(self.options)
        return schema_of(parse_columns(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch query."""
        options = parse_source(self.options, streaming=False)
        return BatchReader(options, self._checked(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader of a streaming query."""
        options = parse_source(self.options, streaming=True)
        return StreamReader(options, self._checked(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Plan a batch write; only append makes sense on a log."""
        if overwrite:
            raise OptionError("mode", "overwrite", 'a log is only appended to: .mode("append")')
        options = parse_sink(self.options)
        check_columns(schema, options)
        return BatchWriter(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Plan the write of a streaming query.

        In complete mode (`overwrite`) each trigger appends the whole result, as with the JVM
        connector: the newest record of a key is its value. Spark offers Python no update mode.
        """
        options = parse_sink(self.options, streaming=True)
        check_columns(schema, options)
        return StreamWriter(options)

    def _checked(self, schema: StructType) -> StructType:
        expected = self.schema()
        if [(f.name, f.dataType) for f in schema] != [(f.name, f.dataType) for f in expected]:
            raise OptionError(
                "schema", schema.simpleString(), f"the source's is {expected.simpleString()}"
            )
        return expected
