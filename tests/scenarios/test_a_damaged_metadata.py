"""Scenarios A: a metadata log that is not what was written.

Bits turn over on the disks of controllers that were stopped in order or killed; brokers and clients
keep what was acknowledged, or nothing starts.
"""

from minikafka.protocol.records.record_batch import headers

from ..simulation.disk import read_all
from ..simulation.stage import Stage, staged

LOG = "__cluster_metadata-0/00000000000000000000.log"
TOPICS = [f"t{number}" for number in range(6)]


def metadata(stage: Stage, who: str) -> str:
    """The directory of a controller's metadata log."""
    return stage.daemon(who).properties["log.dirs"]


def rot(stage: Stage, who: str, offset: int) -> int:
    """A bit of the batch that holds `offset` turns over; returns where that batch begins."""
    disk, path = stage.disk(who), f"{metadata(stage, who)}/{LOG}"
    found = [(at, head) for at, head in headers(read_all(disk, path)) if head.last_offset >= offset]
    position, header = found[0]
    disk.rot(path, position + header.size - 3)
    return int(header.base_offset)


async def filled(stage: Stage) -> dict[str, int]:
    """Topics with a record in each; the metadata offset that made each of them."""
    made = {}
    for topic in TOPICS:
        made[topic] = stage.image().offset + 1
        await stage.create_topic(topic)
        await stage.send(topic, b"kept")
    return made


async def all_readable(stage: Stage) -> None:
    for topic in TOPICS:
        assert await stage.read(topic) == [b"kept"], topic


async def has_everything_again(stage: Stage, who: str) -> None:
    at = stage.controller(who).quorum.node.standing
    await stage.until(lambda: at.recover_to is None, f"{who} has everything again")


def strays(stage: Stage) -> list[str]:
    """Logs that a broker has put aside."""
    return [line for line in stage.logs() if "put aside as" in line]


@staged()
async def test_a_19_an_only_controller_with_a_damaged_log_does_not_start(stage: Stage) -> None:
    """Given one controller and topics, all stopped in order; when one bit of the metadata log turns
    over and all are started; then the controller refuses, naming file, offset and cure, nothing is
    put aside, and with the log as it was everything is readable."""
    made = await filled(stage)
    await stage.stop(1, 2, 3, "controller-1")
    at = rot(stage, "controller-1", made["t3"])
    before = read_all(stage.disk("controller-1"), f"{metadata(stage, 'controller-1')}/{LOG}")
    stage.start("controller-1", 1, 2, 3)
    stage.daemon("controller-1").may_fail = True
    await stage.sleep(5)
    line = str(stage.world.ended_by["controller-1"])
    assert LOG in line
    assert f"offsets {at} to " in line
    assert f"backup, or give them up with minikafka.metadata.log.cut.at={at}" in line
    after = read_all(stage.disk("controller-1"), f"{metadata(stage, 'controller-1')}/{LOG}")
    assert after == before
    assert strays(stage) == []
    rot(stage, "controller-1", made["t3"])
    await stage.begin()
    await all_readable(stage)


CONTROLLERS = ("controller-1", "controller-2", "controller-3")


@staged(controllers=3)
async def test_a_20_a_voter_with_a_damaged_log_is_as_one_that_lost_it(stage: Stage) -> None:
    """Given three controllers stopped in order; when a bit turns over in the log of one and all are
    started; then that one is not elected before it has everything again, and nothing is lost."""
    made = await filled(stage)
    last = stage.active_name()
    assert last is not None
    await stage.stop(1, 2, 3, *CONTROLLERS)
    rot(stage, last, made["t3"])
    stage.start(last)
    await stage.sleep(3)
    assert stage.active_name() is None
    await stage.begin()
    await has_everything_again(stage, last)
    await all_readable(stage)
    assert strays(stage) == []


@staged(controllers=3)
async def test_a_21_of_three_logs_the_one_that_is_whole_wins(stage: Stage) -> None:
    """Given three controllers stopped in order; when bits turn over in two logs; then the two start
    nothing by themselves, and with the third everything is there."""
    made = await filled(stage)
    await stage.stop(1, 2, 3, *CONTROLLERS)
    rot(stage, "controller-1", made["t1"])
    rot(stage, "controller-2", made["t4"])
    stage.start("controller-1", "controller-2")
    await stage.sleep(5)
    assert stage.active_name() is None
    await stage.begin()
    await all_readable(stage)
    assert strays(stage) == []
    for name in CONTROLLERS:
        await has_everything_again(stage, name)


@staged()
async def test_a_22_brokers_put_nothing_aside_for_controllers_that_lost_metadata(
    stage: Stage,
) -> None:
    """Given one controller whose damaged log was given up from some topic on; when brokers come to
    it, then they refuse to follow, with what to do, and put nothing aside; only one that was told
    to gives the forgotten topics up, and deletes none."""
    stage.mute(*range(1, 40))
    made = await filled(stage)
    await stage.stop(1, 2, "controller-1")
    at = rot(stage, "controller-1", made["t3"])
    controller = stage.daemon("controller-1")
    controller.properties["minikafka.metadata.log.cut.at"] = str(at)
    stage.daemon(3).may_fail = True
    stage.start("controller-1", 1, 2)
    for who in (1, 2):
        stage.daemon(who).may_fail = True
    await stage.until(
        lambda: not any(stage.daemon(who).alive for who in (1, 2, 3)), "no broker follows", 30
    )
    refusal = str(stage.world.ended_by["broker-1"])
    assert "does not hold the record at offset" in refusal
    assert strays(stage) == []
    offset = refusal.rpartition("=")[2]
    stage.daemon(1).properties["minikafka.metadata.given.up.at"] = offset
    stage.start(1)
    await stage.ready(1)
    kept = [line for line in strays(stage) if "is not in the metadata" in line]
    assert [line.split()[3] for line in kept] == ["t3-0", "t4-0", "t5-0"]
    assert not any("deleted here" in line for line in stage.logs())
