"""Which batches of a fetch count under read_committed: pure, header by header, no record decoded.

A batch does not count when its producer's transaction was aborted: from that transaction's first
offset to the producer's next marker (KIP-98).
"""

from collections.abc import Iterator

from ..client.records import RawRecords
from ..protocol.record_batch import headers


def visible(raw: RawRecords) -> Iterator[memoryview]:
    """Give the bytes that count, in runs of whole batches; control batches may be among them."""
    if not raw.aborted_transactions:
        yield raw.data
        return
    waiting = sorted(raw.aborted_transactions, key=lambda each: -each.first_offset)
    aborting: set[int] = set()
    begin = 0
    for pos, header in headers(raw.data):
        while waiting and waiting[-1].first_offset <= header.base_offset:
            aborting.add(waiting.pop().producer_id)
        if header.is_control:
            aborting.discard(header.producer_id)
        elif header.is_transactional and header.producer_id in aborting:
            if pos > begin:
                yield raw.data[begin:pos]
            begin = pos + header.size
    if begin < len(raw.data):
        yield raw.data[begin:]
