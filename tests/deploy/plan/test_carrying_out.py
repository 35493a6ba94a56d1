"""Plans carried out in a simulated cluster: under load, interrupted, undone, overtaken."""

from functools import partial

import pytest

from minikafka import TopicPartition
from minikafka.aio import Admin
from minikafka.client.admin.config_types import ConfigResource
from minikafka.deploy.plan.carrying_out import begin, go_back, look, read_cluster, wait
from minikafka.deploy.plan.cluster import Draft, PlanRefused
from minikafka.deploy.plan.goals import drain, replication_factor
from minikafka.deploy.plan.plan_file import Plan
from tests.simulation.stage import Stage, staged

RATE = 20_000
"""Bytes per second: a move takes some virtual seconds."""


async def drained(stage: Stage, broker: int) -> Plan:
    """The plan that takes everything off a broker."""
    cluster_id, cluster = await stage.admin(read_cluster)
    draft = Draft(cluster, [each for each in cluster.brokers if each != broker], ignore_racks=False)
    drain(draft, [broker])
    after = draft.changes()
    before = {where: cluster.partitions[where].replicas for where in after}
    return Plan(cluster_id, f"drain brokers {broker}", before, after)


async def finished(stage: Stage, plan: Plan) -> list[int]:
    told: list[int] = []
    await stage.admin(partial(_wait, plan, told))
    return told


async def _wait(plan: Plan, told: list[int], admin: Admin) -> None:
    await wait(admin, plan, told.append)


def replicas(stage: Stage) -> list[tuple[int, ...]]:
    return [tuple(stage.state("t", index).replicas) for index in range(4)]


async def fill(stage: Stage) -> None:
    await stage.create_topic("t", [[1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 3, 2]])
    for index in range(4):
        await stage.send("t", *[b"x" * 1000] * 100, partition=index)


async def throttles(stage: Stage) -> list[str]:
    """The keys of throttling that are set on brokers and on the topic."""
    resources = [*(ConfigResource.broker(each) for each in range(1, 5)), ConfigResource.topic("t")]
    found = await stage.admin(lambda admin: admin.describe_configs(resources))
    return [
        key
        for entries in found.values()
        for key, entry in entries.items()
        if "throttled" in key and not entry.is_default and entry.value
    ]


@staged(brokers=4)
async def test_a_drained_broker_holds_nothing_and_no_record_is_lost(stage: Stage) -> None:
    await fill(stage)
    plan = await drained(stage, 3)
    assert len(plan.after) >= 4
    found = await stage.admin(lambda admin: begin(admin, plan, RATE))
    assert len(found.waiting) == len(plan.after)
    assert await throttles(stage)
    await stage.send("t", b"meanwhile")
    told = await finished(stage, plan)
    assert told[-1] == len(plan.after)
    assert len(told) > 3, "under a throttle it takes its time"
    assert not any(3 in each for each in replicas(stage))
    assert await throttles(stage) == []
    values = await stage.read("t")
    assert len(values) == 101
    _, cluster = await stage.admin(read_cluster)
    assert all(3 not in one.replicas for one in cluster.partitions.values())


@staged(brokers=4)
async def test_an_interrupted_plan_goes_on_where_it_is(stage: Stage) -> None:
    await fill(stage)
    plan = await drained(stage, 3)
    await stage.admin(lambda admin: begin(admin, plan, RATE))
    await stage.sleep(2)
    progress = await stage.admin(lambda admin: look(admin, plan))
    assert progress.moving
    again = await stage.admin(lambda admin: begin(admin, plan, 10 * RATE))
    assert again.waiting == (), "nothing is begun twice"
    await finished(stage, plan)
    done = await stage.admin(lambda admin: look(admin, plan))
    assert len(done.done) == len(plan.after)
    assert await throttles(stage) == []


@staged(brokers=4)
async def test_what_moves_and_what_is_done_goes_back(stage: Stage) -> None:
    await fill(stage)
    before = replicas(stage)
    plan = await drained(stage, 3)
    await stage.admin(lambda admin: begin(admin, plan, RATE))
    await stage.sleep(2)
    back = await stage.admin(lambda admin: go_back(admin, plan, None))
    await finished(stage, back)
    assert replicas(stage) == before
    await stage.admin(lambda admin: begin(admin, plan, None))
    await finished(stage, plan)
    back = await stage.admin(lambda admin: go_back(admin, plan, None))
    assert len(back.after) == len(plan.after)
    await finished(stage, back)
    assert replicas(stage) == before
    assert len(await stage.read("t", 1)) == 100


@staged(brokers=4)
async def test_a_plan_that_was_overtaken_is_refused(stage: Stage) -> None:
    await fill(stage)
    plan = await drained(stage, 3)
    where = TopicPartition("t", 0)
    await stage.admin(lambda admin: admin.alter_partition_reassignments({where: [4, 1]}))
    await finished(stage, Plan(plan.cluster_id, "other", {where: (4, 1)}, {where: (4, 1)}))
    with pytest.raises(PlanRefused, match="t-0 is on 4,1, and was on 1,2,3 when the plan was made"):
        await stage.admin(lambda admin: begin(admin, plan, None))
    foreign = Plan("another", plan.goal, plan.before, plan.after)
    with pytest.raises(PlanRefused, match="the plan was made for cluster another"):
        await stage.admin(lambda admin: look(admin, foreign))


@staged(brokers=4)
async def test_a_topic_that_is_gone_is_passed_over(stage: Stage) -> None:
    await fill(stage)
    await stage.create_topic("gone", [[3]], replication=1)
    plan = await drained(stage, 3)
    await stage.admin(lambda admin: admin.delete_topics(["gone"]))
    found = await stage.admin(lambda admin: begin(admin, plan, RATE * 10))
    assert found.gone == (TopicPartition("gone", 0),)
    await finished(stage, plan)
    assert not any(3 in each for each in replicas(stage))


@staged(brokers=4)
async def test_another_number_of_replicas(stage: Stage) -> None:
    await fill(stage)
    cluster_id, cluster = await stage.admin(read_cluster)
    chosen = [where for where in cluster.partitions if where.topic == "t"]
    assert all(cluster.partitions[where].size_bytes > 100_000 for where in chosen)
    draft = Draft(cluster, cluster.brokers, ignore_racks=False)
    replication_factor(draft, chosen, 4)
    after = draft.changes()
    before = {where: cluster.partitions[where].replicas for where in after}
    plan = Plan(cluster_id, "replication-factor 4", before, after)
    await stage.admin(lambda admin: begin(admin, plan, None))
    await finished(stage, plan)
    assert [sorted(each) for each in replicas(stage)] == [[1, 2, 3, 4]] * 4
