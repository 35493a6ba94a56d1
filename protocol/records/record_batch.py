"""RecordBatch v2: exports the public names of `batch_header` and `records` in one place.

Records are sent and stored as RecordBatch v2. `batch_header` reads and changes headers only,
`records` reads and writes the records.
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
