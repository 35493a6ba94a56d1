"""One run: controllers, brokers, clients, an operator and faults, all drawn from one seed.

Faults happen for a minute. Then they end, the cluster must converge, and everything is read back.
"""

from dataclasses import dataclass, field
from functools import cached_property

from minikafka.aio import TopicPartition
from minikafka.protocol.control.records import MetadataRecord
from minikafka.protocol.types import AUDIT_TOPIC, NO_LEADER

from . import (
    refused_admin,
    refused_control,
    refused_groups,
    refused_reads,
    refused_transactions,
)
from .audit_checks import is_audit_written, judge_audit
from .cluster import Cluster
from .compaction_workload import TOPIC
from .connect_workload import COMPACTED as KEPT
from .coverage import Coverage
from .delay_workload import LATER, is_all_forwarded
from .ear import Ear
from .history import Sent, check
from .inside import active, forgets_acls, image_of_broker, image_of_controller, watched
from .invariants import Invariants
from .nemesis import Nemesis
from .operations import Operator
from .promises import INTERNAL_TOPICS, Promises
from .refusals import Refused
from .shape import Shape, draw
from .variety import vary
from .workload import Workload
from .world import Violation, World, dice

FAULT_SECONDS = 60.0
CONVERGE_SECONDS = 60.0
CONTROLLERS = 3


@dataclass(slots=True)
class Outcome:
    """The result of one run."""

    seed: int
    world: World
    violation: str | None = None
    acknowledged_count: int = 0
    sent_count: int = 0
    checks: int = 0
    coverage: Coverage = field(default_factory=Coverage)
    seconds: float = 0.0

    @property
    def digest(self) -> str:
        return self.world.trace.digest()


def shape_of(seed: int) -> Shape:
    """Return the shape that this seed draws, without running anything."""
    return vary(draw(dice(seed, "shape"), CONTROLLERS), dice(seed, "variety"))


class Scenario:
    """The run of one seed."""

    def __init__(self, seed: int, fault_seconds: float = FAULT_SECONDS) -> None:
        self.world = World(seed)
        self.fault_seconds = fault_seconds
        self.shape = shape = shape_of(seed)
        self.cluster = Cluster(
            self.world,
            shape.brokers,
            shape.controllers,
            shape.broker,
            shape.controller,
        )
        self._differ()
        if shape.sealed:
            self.world.network.ear = Ear()
        self.coverage = Coverage()
        self.world.on_log = self.coverage.on_log
        self.invariants = Invariants(self.world, self.cluster, self.coverage)
        self.invariants.seals.ear = self.world.network.ear
        self.promises = Promises(self.cluster, self.invariants, shape)
        self.invariants.is_flushed = self.promises.is_flushed
        self.invariants.has_leases = shape.leases
        unclean = {topic.name: None for topic in shape.topics if topic.unclean}
        self.invariants.may_be_unclean = lambda topic: topic in unclean
        for daemon in self.cluster.daemons.values():
            daemon.on_started = self.invariants.watch
            daemon.on_power_lost = self.invariants.lost_power
        self.world.network.latency_min = shape.latency
        self.workload = Workload(self.world, self.cluster, shape, self.coverage)
        self.workload.on_acknowledged = self._on_acknowledged
        self.workload.on_polled = self.invariants.on_polled
        self.workload.on_delete_asked = self.invariants.on_delete_asked
        self.workload.groups.may_be_gone_below = self.invariants.may_be_gone_below
        if shape.compacts:
            # A delay topic loses what is over.
            compacted = [each for each in INTERNAL_TOPICS if each != AUDIT_TOPIC]
            self.invariants.compacted = dict.fromkeys((TOPIC, LATER, *KEPT, *compacted))
        self.invariants.starts.topics = {topic.name: topic for topic in shape.topics}

    def _differ(self) -> None:
        """Give machines different racks, clocks and numbers of disks."""
        shape, rng = self.shape, self.world.rng("machines")
        for daemon in self.cluster.daemons.values():
            daemon.host.clock_rate = 1 + shape.drift * rng.uniform(-1, 1)
        for number, daemon in self.cluster.brokers.items():
            if shape.racks:
                daemon.properties["broker.rack"] = f"rack-{number % shape.racks}"
            places = [f"/data/{daemon.name}-{place}" for place in range(1, shape.directories)]
            daemon.properties["log.dirs"] = ",".join((daemon.properties["log.dirs"], *places))

    def _on_acknowledged(self, sent: Sent) -> None:
        self.invariants.on_acknowledged(sent)
        self.promises.on_acknowledged()

    @cached_property
    def nemesis(self) -> Nemesis:
        return Nemesis(self.world, self.cluster, self.shape, self.promises, self.coverage)

    @cached_property
    def operator(self) -> Operator:
        return Operator(self.world, self.cluster, self.shape, self.workload, self.coverage)

    @cached_property
    def refused(self) -> Refused:
        refused = Refused(self.world, self.cluster, self.shape, self.coverage)
        refused.transaction_version = self.workload.transaction_version
        refused.image = lambda: self.invariants.image
        refused.stories = {
            **refused_admin.STORIES,
            **refused_control.STORIES,
            **refused_reads.STORIES,
            **refused_groups.STORIES,
            **refused_transactions.STORIES,
        }
        return refused

    def run(self) -> Outcome:
        outcome = Outcome(self.world.seed, self.world, coverage=self.coverage)
        try:
            with watched():
                self.world.run(self._story(), limit=self.fault_seconds + 400)
        except Violation as violation:
            outcome.violation = str(violation)
        history = self.workload.history
        outcome.acknowledged_count = history.acknowledged_count
        outcome.sent_count = len(history.sent)
        outcome.checks = self.invariants.checks
        outcome.seconds = self.world.now()
        return outcome

    async def _story(self) -> None:
        cluster, workload = self.cluster, self.workload
        self._tell_shape()
        cluster.start()
        await cluster.wait_until(
            lambda: all(each.service is not None for each in cluster.daemons.values()),
            "every daemon is ready",
            30,
        )
        await workload.create_topics()
        workload.start()
        await cluster.wait_until(
            lambda: workload.started_count == len(workload.processes), "clients are connected", 10
        )
        self.operator.start()
        if self.shape.refuses:
            self.refused.start()
        await self.nemesis.run(self.fault_seconds)
        self.operator.stopping = True
        await cluster.wait_until(self._is_whole, self._what_is_missing, CONVERGE_SECONDS)
        if self.shape.refuses:
            self.refused.stopping = True
            await cluster.wait_until(
                lambda: not self.refused.alive, "all that is refused was asked", CONVERGE_SECONDS
            )
        if self.shape.connects:
            workload.connect.is_calm = True
            await cluster.wait_until(
                workload.connect.is_settled, workload.connect.what_is_missing, 2 * CONVERGE_SECONDS
            )
        workload.stopping = True
        await cluster.wait_until(
            lambda: not any(process.alive for process in workload.processes),
            "clients have finished",
            CONVERGE_SECONDS,
        )
        await cluster.wait_until(self._is_whole, self._what_is_missing, CONVERGE_SECONDS)
        self._compare_images()
        if self.shape.delays:
            # By a clock that was set back nothing is due yet.
            for daemon in cluster.brokers.values():
                daemon.host.wall_skew_ms = 0
            await cluster.wait_until(
                lambda: is_all_forwarded(workload), "all is forwarded", 2 * CONVERGE_SECONDS
            )
        if self.shape.audits:
            await cluster.wait_until(
                lambda: is_audit_written(self.invariants.image, cluster),
                "the audit is written",
                CONVERGE_SECONDS,
            )
            for finding in await judge_audit(self.invariants.image, cluster):
                self.world.violation(finding)
        await self._read_back()

    def _tell_shape(self) -> None:
        emit = self.world.trace.emit
        shape = self.shape
        emit(
            "shape",
            "cluster",
            f"brokers={shape.brokers}",
            f"elr={shape.elr}",
            f"leases={shape.leases}",
            *[f"{key}={value}" for key, value in shape.broker.items()],
        )
        for topic in shape.topics:
            emit("shape", "topic", topic)
        for producer in shape.producers:
            emit("shape", "producer", producer.name, *producer.settings.values())

    # -- the end ----------------------------------------------------------------------------

    async def _read_back(self) -> None:
        history = self.workload.history
        image = self.invariants.image
        assert image is not None
        partitions = []
        for topic in self.workload.lasting:
            found = image.topic(topic.name)
            assert found is not None
            partitions += [TopicPartition(topic.name, index) for index in found.partitions]
        for truth in self.invariants.truths.values():
            if truth.was_unclean:
                history.lossy[truth.topic, truth.index] = None
        await self.workload.read_everything(partitions)
        for partition in history.final:
            history.gone_below[partition] = self.invariants.may_be_gone_below(partition)
        findings = check(history)
        findings += await self.workload.judge_groups(history.lossy)
        findings += await self.workload.judge_transactions(history.lossy)
        findings += await self.workload.judge_state()
        findings += await self.workload.judge_delays()
        findings += await self.workload.judge_connect()
        for finding in findings:
            self.world.violation(finding)
            break

    def _compare_images(self) -> None:
        """Check that a replay from any snapshot gives the same metadata as a whole one (19)."""
        known: tuple[str, int, list[MetadataRecord]] | None = None
        for daemon in self.cluster.daemons.values():
            process = daemon.process
            assert process is not None
            image = image_of_controller(process) or image_of_broker(process)
            assert image is not None
            if forgets_acls(process):
                self.invariants.report(
                    f"invariant 19: {daemon.name} decides by other ACLs than its metadata have"
                )
            here = (daemon.name, image.offset, list(image.to_records()))
            if known is None:
                known = here
            elif here[1] == known[1] and here[2] != known[2]:
                self.invariants.report(
                    f"invariant 19: {daemon.name} has other metadata than {known[0]}"
                )

    def _is_whole(self) -> bool:
        return self._what_is_missing() is None

    def _what_is_missing(self) -> str | None:
        """Return the reason why the cluster has not converged; None if it has."""
        for daemon in self.cluster.daemons.values():
            if not daemon.alive or daemon.service is None:
                return f"{daemon.name} is not ready"
        if active(self.cluster) is None:
            return "no controller is active"
        image = self.invariants.image
        assert image is not None
        for topic in image.topics.values():
            for index, state in topic.partitions.items():
                name = f"{topic.name}-{index}"
                if state.leader == NO_LEADER:
                    return f"{name} has no leader: {state}"
                if len(state.isr) < len(state.replicas):
                    return f"{name}: ISR {state.isr} of {state.replicas}"
                if state.adding or state.removing:
                    return f"{name} is still being reassigned: {state}"
        for daemon in self.cluster.daemons.values():
            process = daemon.process
            assert process is not None
            here = image_of_controller(process) or image_of_broker(process)
            if here is None or here.offset != image.offset:
                return f"{daemon.name} is behind with its metadata"
        return None


def run(seed: int, fault_seconds: float = FAULT_SECONDS) -> Outcome:
    return Scenario(seed, fault_seconds).run()
