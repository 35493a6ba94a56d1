"""Which bytes are written together with TLS."""

from minikafka.security.tls_records import RECORD_BYTES, WRITE_MAX, in_records


def test_small_parts_are_joined_and_large_ones_cut() -> None:
    small, large = b"s" * 100, bytes(range(256)) * 2048
    parts = [small, large, small, small, *[b"m" * 5000] * 8, small]
    pieces = list(in_records(parts))
    assert b"".join(pieces) == b"".join(parts)
    sizes = [len(each) for each in pieces]
    assert max(sizes) == WRITE_MAX
    assert sizes[:3] == [100, WRITE_MAX, WRITE_MAX]
    assert all(size > RECORD_BYTES for size in sizes[3:-1])
