"""The data source behind `format("minikafka")`: makes a source or a sink from options."""

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
    """A data source for topics: read and write, batch and streaming."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format, for `spark.read.format`."""
        return "minikafka"

    def schema(self) -> StructType:
        """Return the connector's schema, or the part of it that `columns` names.

        It has `headers` only with `includeHeaders`. Spark calls this when a frame that reads is
        made, so wrong options are refused as early as then.
        """
        check_source(self.options)
        return schema_of(parse_columns(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch query.

        Raise OptionError if an option or the schema is wrong.
        """
        options = parse_source(self.options, streaming=False)
        return BatchReader(options, self._checked(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the reader of a streaming query.

        Raise OptionError if an option or the schema is wrong.
        """
        options = parse_source(self.options, streaming=True)
        return StreamReader(options, self._checked(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer of a batch job.

        Raise OptionError for `overwrite`, because a log only grows.
        """
        if overwrite:
            raise OptionError("mode", "overwrite", 'a log is only appended to: .mode("append")')
        options = parse_sink(self.options)
        check_columns(schema, options)
        return BatchWriter(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Return the writer of a streaming query.

        In complete mode (`overwrite`) each trigger appends the whole result, as with the JVM
        connector, so that a key's newest record is its value. Spark offers Python no update mode.
        Raise OptionError for a wrong option or column.
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
