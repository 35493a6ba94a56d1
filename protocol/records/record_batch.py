"""RecordBatch v2 in one place: the header and what a broker does to it, and the records inside.

Records travel and rest as these bytes; `batch_header` never reads a record, `records` reads and
writes nothing else.
"""

from ..compression import Codec
from .batch_header import (
    HEADER_SIZE,
    MAGIC,
    BatchHeader,
    TimestampType,
    crc_is_valid,
    headers,
    read_header,
    rewrite_as_log_append_time,
    rewrite_producer,
    seal,
    stamp,
    validate_for_append,
)
from .records import BatchBuilder, Headers, NewRecord, Record, build, records

__all__ = [
    "HEADER_SIZE",
    "MAGIC",
    "BatchBuilder",
    "BatchHeader",
    "Codec",
    "Headers",
    "NewRecord",
    "Record",
    "TimestampType",
    "build",
    "crc_is_valid",
    "headers",
    "read_header",
    "records",
    "rewrite_as_log_append_time",
    "rewrite_producer",
    "seal",
    "stamp",
    "validate_for_append",
]
