"""Sends ISR changes to the controller: one request at a time, with all changes that wait.

This module owns the queue. A proposal is sent again until the controller answers it, or until its
leader withdraws or replaces it. `LeaderReplica` decides what an answer means.
"""

import asyncio
from dataclasses import replace
from typing import Final

from ...client.net.backoff import Backoff
from ...client.net.refusals import Refusals
from ...protocol.control.messages import (
    AlterPartitions,
    ChangedPartition,
    IsrMember,
    PartitionChange,
)
from ...protocol.errors import ApiError, ErrorCode
from ...runtime.owned_task import OwnedTask
from ...runtime.runtime import Runtime
from ..control.controller_channel import ControllerChannel
from ..partition.leading import carry_out
from ..partition.partition import Partition
from ..replica.leader import ProposeIsr

RETRY: Final = Backoff(first_ms=50, most_ms=1000, steady_count=5)
CHANGES_MAX: Final = 5_000
"""The most changes in one request; the rest follow with the next."""


class IsrProposals:
    """Sends the ISRs that this broker's leaders propose."""

    def __init__(self, runtime: Runtime, channel: ControllerChannel, broker_id: int) -> None:
        self._runtime = runtime
        self._channel = channel
        self._broker_id = broker_id
        self._waiting: dict[Partition, ProposeIsr] = {}
        self._task = OwnedTask(runtime, "isr proposals")
        self._refusals = Refusals()
        self.shrunk = self.expanded = self.refused = 0
        """The proposals since the start by result: accepted as a smaller ISR, accepted as a larger
        one, or refused for good."""

    def propose(self, partition: Partition, proposal: ProposeIsr) -> None:
        """Send the proposal with the next request; it replaces an older one of the partition."""
        self._waiting[partition] = proposal
        self._task.start(self._run)

    async def close(self) -> None:
        """Drop the waiting proposals and stop sending."""
        self._waiting.clear()
        await self._task.stop()

    async def _run(self) -> None:
        failures = 0
        while self._waiting:
            sent = self._take()
            if not sent:
                continue
            retry = await self._send(sent)
            if retry:
                failures += 1
                for partition, proposal in retry.items():
                    self._waiting.setdefault(partition, proposal)
                await asyncio.sleep(RETRY.after(failures, self._runtime.rng) / 1000)
            else:
                failures = 0

    def _take(self) -> dict[Partition, ProposeIsr]:
        """Remove proposals from the queue and return them, except those that leaders withdrew."""
        taken: dict[Partition, ProposeIsr] = {}
        while self._waiting and len(taken) < CHANGES_MAX:
            partition = next(iter(self._waiting))
            proposal = self._waiting.pop(partition)
            if partition.leader is not None and partition.leader.proposal == proposal:
                taken[partition] = proposal
        return taken

    async def _send(self, sent: dict[Partition, ProposeIsr]) -> dict[Partition, ProposeIsr]:
        """Send one request and process its answer; return the proposals to send again."""
        # Metadata may overtake the answer, so the sizes of the ISRs are compared now.
        growth = {each: len(sent[each].isr) - len(each.metadata.isr) for each in sent}
        request = AlterPartitions(
            self._broker_id,
            self._channel.broker_epoch,
            tuple(_change(partition, proposal) for partition, proposal in sent.items()),
        )
        try:
            answer = await self._channel.call(request)
        except ApiError as error:
            return self._fail_all(sent, error.code)
        if answer.error:
            return self._fail_all(sent, ErrorCode(answer.error))
        results = {(each.topic_id, each.partition): each for each in answer.partitions}
        retry: dict[Partition, ProposeIsr] = {}
        for partition, proposal in sent.items():
            result = results.get((partition.topic_id, partition.index))
            if result is None:
                retry.update(self._fail(partition, proposal, ErrorCode.UNKNOWN_SERVER_ERROR))
            elif result.error:
                retry.update(self._fail(partition, proposal, ErrorCode(result.error)))
            else:
                self.expanded += growth[partition] > 0
                self.shrunk += growth[partition] < 0
                self._accept(partition, proposal, result)
        return retry

    def _fail_all(
        self, sent: dict[Partition, ProposeIsr], error: ErrorCode
    ) -> dict[Partition, ProposeIsr]:
        retry: dict[Partition, ProposeIsr] = {}
        for partition, proposal in sent.items():
            retry.update(self._fail(partition, proposal, error))
        return retry

    def _fail(
        self, partition: Partition, proposal: ProposeIsr, error: ErrorCode
    ) -> dict[Partition, ProposeIsr]:
        leader = partition.leader
        if leader is None:
            return {}
        effects = leader.on_proposal_failed(proposal, error, self._runtime.monotonic_ms())
        if proposal in effects:
            return {partition: proposal}
        self.refused += 1
        # A refused ISR is proposed again as long as the follower fetches, so this is logged once
        # until the partition has changed.
        cause = (partition.key, proposal.partition_epoch, error)
        isr = [broker for broker, _ in proposal.isr]
        self._refusals.note(cause, "%r: isr %s: %s", partition, isr, error.name)
        carry_out(partition, effects)
        return {}

    def _accept(self, partition: Partition, proposal: ProposeIsr, result: ChangedPartition) -> None:
        leader = partition.leader
        if leader is None:
            return
        metadata = replace(
            leader.metadata,
            leader_epoch=result.leader_epoch,
            partition_epoch=result.partition_epoch,
            isr=result.isr,
            recovering=result.recovering,
            # The answer may overtake a change of the setting. The controller computed the eligible
            # leaders with its value; commits with fewer replicas could miss on one of them.
            min_isr=max(leader.metadata.min_isr, result.min_isr),
        )
        now_ms = self._runtime.monotonic_ms()
        carry_out(partition, leader.on_proposal_accepted(proposal, metadata, now_ms))


def _change(partition: Partition, proposal: ProposeIsr) -> PartitionChange:
    return PartitionChange(
        topic_id=partition.topic_id,
        partition=partition.index,
        leader_epoch=proposal.leader_epoch,
        partition_epoch=proposal.partition_epoch,
        isr=tuple(IsrMember(broker, epoch) for broker, epoch in proposal.isr),
        recovering=False,
    )
