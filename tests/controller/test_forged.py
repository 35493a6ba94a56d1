"""What nobody of the cluster would say: numbers of any size, from whoever reaches a controller."""

import dataclasses
import random
import typing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikafka.controller.api.table import APIS
from minikafka.controller.quorum.checks import EPOCH_MAX, epoch_limit
from minikafka.controller.quorum.quorum_state import (
    read_quorum_state,
    write_quorum_state,
)
from minikafka.protocol.control import quorum_messages as q
from minikafka.protocol.errors import ApiError, ErrorCode
from minikafka.runtime.errors import CorruptLog
from minikafka.storage.files import Files

from .conftest import FakeBroker, Lab
from .quorum_lab import CLUSTER, WALL_MS, Host
from .quorum_lab import Lab as QuorumLab

EDGES = [
    sign * (1 << bits) + off
    for bits in (15, 16, 24, 31, 32, 62)
    for sign in (1, -1)
    for off in (-1, 0, 1)
]
EDGES += [(1 << 63) - 1, -(1 << 63)]


def forged(hint: Any, dice: random.Random, known: dict[type, list[Any]]) -> Any:
    """Any value of a field, its numbers from the edges of all widths or what the cluster uses."""
    if dataclasses.is_dataclass(hint):
        hints = typing.get_type_hints(hint)
        fields = [each.name for each in dataclasses.fields(hint) if not each.kw_only]
        made: Any = hint
        return made(**{name: forged(hints[name], dice, known) for name in fields})
    args = typing.get_args(hint)
    if type(None) in args:
        return None if dice.random() < 0.3 else forged(args[0], dice, known)
    if typing.get_origin(hint) is tuple:
        return tuple(forged(args[0], dice, known) for _ in range(dice.randrange(3)))
    if typing.get_origin(hint) is dict:
        return {name: forged(args[1], dice, known) for name in ("", "kraft.version")}
    if hint is bool:
        return dice.random() < 0.5
    is_edge = hint is int and dice.random() < 0.2
    return dice.choice(EDGES if is_edge else known[hint])


async def fresh(lab: Lab) -> FakeBroker:
    return await lab.broker(7)


@pytest.mark.parametrize("seed", range(4))
async def test_no_number_in_any_request_ends_a_controller_or_its_next_start(
    lab: Lab, seed: int
) -> None:
    broker = await lab.broker(1)
    await broker.come_up()
    await broker.create_topic("t", 2, 1)
    (topic_id,) = broker.image.topics
    me = lab.server.controller.quorum.node.standing.settings.me
    known: dict[type, list[Any]] = {
        int: [broker.epoch, 1, 9, 0, -1, 2],
        str: ["t", "", lab.server.controller.cluster_id or ""],
        bytes: [topic_id, me.directory_id, bytes([1, 1]) * 8, bytes([1, 0]) * 8, b"", bytes(16)],
    }
    dice = random.Random(seed)
    connection = (await fresh(lab)).connection
    for _ in range(300):
        request = forged(dice.choice(list(APIS)), dice, known)
        try:
            await connection.call(request, timeout_ms=100)
        except ApiError as error:
            if error.code is not ErrorCode.REQUEST_TIMED_OUT:
                connection = (await fresh(lab)).connection
        assert lab.failures == []
    await lab.server.stop()
    await lab.start()
    other = await lab.broker(2, directory=5)
    await other.come_up()
    assert (await other.create_topic("after", 1, 1)).error_code == 0


# The quorum's machine.


def led() -> QuorumLab:
    lab = QuorumLab(3)
    lab.run(1000)
    return lab


def key(host: Host) -> q.VoterKey:
    return q.VoterKey(host.node_id, host.directory_id)


def ask(lab: QuorumLab, to: Host, request: q.QuorumRequest) -> Any:
    ticket = lab.next_ticket()
    lab.asked[ticket] = (to.node_id, -1, to.node_id, request)
    assert to.node is not None
    to.take(to.node.on_request(ticket, request, lab.now_ms))
    found = [what[2] for _, _, what in lab.wire if what[:2] == ("answer", ticket)]
    lab.wire = [each for each in lab.wire if each[2][1] != ticket]
    return found[0]


@pytest.mark.parametrize("epoch", [(1 << 31) - 1, EPOCH_MAX + 1, epoch_limit(WALL_MS) + 1000])
def test_no_epoch_that_nobody_can_have_come_to_is_entered(epoch: int) -> None:
    """By a vote, a reign, its end or an answer: each is refused, and elections go on."""
    lab = led()
    one, other = lab.hosts[2], lab.hosts[3]
    requests: list[q.QuorumRequest] = [
        q.Vote(CLUSTER, epoch, key(other), key(one), 9, 99, pre_vote=False),
        q.Vote(CLUSTER, epoch, key(other), key(one), 9, 99, pre_vote=True),
        q.BeginQuorumEpoch(CLUSTER, epoch, key(other), key(one)),
        q.EndQuorumEpoch(CLUSTER, epoch, key(other), (2,)),
    ]
    for request in requests:
        assert ask(lab, one, request).error == ErrorCode.INVALID_REQUEST
        assert one.state.epoch == 1
    assert one.node is not None
    for asked in requests[:1]:
        answer = q.VoteAnswer(ErrorCode.NONE, epoch=epoch, leader_id=3)
        one.take(one.node.on_answered(3, asked, answer, lab.now_ms))
        assert one.state.epoch == 1
    lab.kill(1)
    lab.run(3000)
    assert lab.leader.state.epoch <= 5


def test_a_forged_epoch_that_could_be_costs_an_election() -> None:
    """The latest there can be: a second later there can be another one."""
    lab = led()
    epoch = epoch_limit(WALL_MS + lab.now_ms)
    for host in lab.hosts.values():
        ask(lab, host, q.Vote(CLUSTER, epoch, key(lab.hosts[2]), key(host), -1, 0, pre_vote=False))
    lab.run(5000)
    assert epoch < lab.leader.state.epoch < epoch + 10


def test_a_voter_that_was_away_for_years_catches_up() -> None:
    """Every epoch that there can be is entered, however far it is from the voter's own."""
    lab = led()
    lab.cut = lambda source, target: 3 in (source, target)
    for host in (lab.hosts[1], lab.hosts[2]):
        host.crash()
        host.state = replace(host.state, epoch=(1 << 24) - 9, voted_id=-1)
        host.start()
    lab.run(2000)
    lab.cut = lambda source, target: False
    lab.run(2000)
    assert lab.hosts[3].state.epoch == lab.leader.state.epoch > 1 << 23


@given(st.integers(-(1 << 62), 1 << 62))
def test_the_latest_epoch_leaves_room_for_elections(wall_ms: int) -> None:
    assert 1 << 24 <= epoch_limit(wall_ms) <= EPOCH_MAX
    assert EPOCH_MAX + (1 << 24) <= 1 << 31
    assert epoch_limit(wall_ms + 1000) >= epoch_limit(wall_ms)


async def test_a_state_of_such_an_epoch_is_refused_in_one_line(lab: Lab, tmp_path: Path) -> None:
    await lab.server.stop()
    directory = f"{lab.directory}/__cluster_metadata-0"
    files = Files(lab.runtime.fs, str(lab.directory))
    state = read_quorum_state(files, directory, None)
    assert state is not None
    await write_quorum_state(files, directory, replace(state, epoch=(1 << 31) - 1))
    with pytest.raises(CorruptLog, match="quorum-state at byte 0: epoch 2147483647 is none"):
        await lab.start()
    await write_quorum_state(files, directory, state)
    await lab.start()


EDGE = st.sampled_from(EDGES) | st.integers(-3, 3)
EPOCHS = st.sampled_from([each for each in EDGES if -1 <= each < 1 << 31]) | st.integers(-1, 3)
OFFSETS = st.sampled_from([each for each in EDGES if each >= -1]) | st.integers(-1, 3)


@given(st.data())
def test_no_number_ends_the_machine_of_the_quorum(data: st.DataObject) -> None:
    """What can be decoded, from a voter's own disk, in requests and in answers."""
    lab = led()
    epochs, offsets, numbers = (partial(data.draw, each) for each in (EPOCHS, OFFSETS, EDGE))
    one, other = lab.hosts[data.draw(st.integers(1, 3))], lab.hosts[1]
    request: Any = data.draw(
        st.sampled_from(
            [
                q.Vote(
                    CLUSTER, epochs(), key(other), key(one), epochs(), offsets(), pre_vote=False
                ),
                q.BeginQuorumEpoch(CLUSTER, epochs(), key(other), key(one)),
                q.EndQuorumEpoch(CLUSTER, epochs(), key(other), (epochs(), 2)),
                q.FetchQuorumLog(
                    *(CLUSTER, epochs(), key(other), offsets(), epochs(), offsets()),
                    *(numbers(), numbers(), numbers()),
                ),
            ]
        )
    )
    ticket = lab.next_ticket()
    lab.asked[ticket] = (one.node_id, -1, one.node_id, request)
    assert one.node is not None
    one.take(one.node.on_request(ticket, request, lab.now_ms))
    lab.wire.clear()
    lab.run(5000)
    assert lab.leader.state.epoch < EPOCH_MAX
