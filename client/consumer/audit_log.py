"""Reads the audit topic: what changed in the cluster, who asked, and whether its chain is whole."""

from collections.abc import AsyncGenerator, Sequence
from typing import Final, NamedTuple

from ...protocol.audit import AUDIT_PARTITION, ChainCheck, Link, digest_of
from ...protocol.types import AUDIT_TOPIC, TopicPartition
from ...runtime.runtime import Runtime
from ..admin.admin import Admin
from ..config import settings_like
from .consumer import Consumer

POLL_MS: Final = 500
FAULTS_MAX: Final = 100
"""The most faults that one check tells."""


class AuditRecord(NamedTuple):
    """One record of the audit topic."""

    offset: int
    key: bytes | None
    value: bytes | None


class Verified(NamedTuple):
    """The result of a check of the whole chain."""

    first: int
    """The offset of the first record; equal to `end` if there is none."""
    end: int
    """The offset behind the last record."""
    head: Link | None
    """The SHA-256 and the number of the last record; None if there is none."""
    faults: Sequence[str]
    """Sentences that name the wrong records by their offsets, in order; at most FAULTS_MAX."""
    gaps: Sequence[tuple[int, int]]
    """The first and the last number of requests that the log says it does not have."""


class AuditLog:
    """The audit of a cluster."""

    def __init__(self, admin: Admin, runtime: Runtime | None = None) -> None:
        """Settings that concern connections are the admin's."""
        self._admin = admin
        self._settings = settings_like(admin.config)
        self._runtime = runtime

    async def read(
        self, *, since_ms: int | None = None, last: int | None = None, follow: bool = False
    ) -> AsyncGenerator[AuditRecord, None]:
        """Yield the records that are there, and with `follow` each new one.

        With `since_ms` only those written from this time on, with `last` only so many. Raise
        AdminError if nothing was ever audited.
        """
        await self._admin.describe_topics([AUDIT_TOPIC])
        there = TopicPartition(AUDIT_TOPIC, AUDIT_PARTITION)
        async with Consumer.from_config(self._settings, runtime=self._runtime) as consumer:
            at = (await consumer.beginning_offsets([there]))[there]
            end = (await consumer.end_offsets([there]))[there]
            if since_ms is not None:
                found = (await consumer.offsets_for_times({there: since_ms}))[there]
                at = end if found is None else max(at, found.offset)
            if last is not None:
                at = max(at, end - last)
            consumer.assign([there])
            consumer.seek(there, at)
            while follow or at < end:
                for record in await consumer.poll(POLL_MS):
                    if follow or record.offset < end:
                        yield AuditRecord(record.offset, record.key, record.value)
                at = await consumer.position(there)

    async def verify(self, known: Sequence[tuple[int, str]] = ()) -> Verified:
        """Check every record that is there.

        `known` are offsets with the SHA-256 that their records had when they were noted elsewhere.
        """
        chain, noted, faults = ChainCheck(), dict(known), list[str]()
        first = end = 0
        async for record in self.read():
            if chain.last is None:
                first = record.offset
                faults += _deleted(noted, first)
            fault = chain.add(*record)
            digest = noted.pop(record.offset, None)
            if fault is None and digest is not None and digest != digest_of(record.value or b""):
                fault = f"offset {record.offset}: is not the record with SHA-256 {digest}"
            if fault is not None and len(faults) < FAULTS_MAX:
                faults.append(fault)
            end = record.offset + 1
        faults += [f"offset {offset}: is missing at the end" for offset in sorted(noted)]
        head = None if chain.last is None else chain.last[1]
        return Verified(first, end, head, faults, chain.gaps)


def _deleted(noted: dict[int, str], first: int) -> list[str]:
    """Take out of `noted` what retention has deleted, and say so."""
    gone = sorted(offset for offset in noted if offset < first)
    for offset in gone:
        del noted[offset]
    return [f"offset {offset}: is deleted, the log begins at {first}" for offset in gone]
