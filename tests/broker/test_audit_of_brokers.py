"""What a broker tells the audit of logins, denials, groups and offsets, seen where it is noted."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from minikafka.broker.audit.happenings import Happening
from minikafka.broker.edge import Edge
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.delete_groups import DeleteGroupsRequest
from minikafka.protocol.messages.delete_topics import DeleteTopicsRequest
from minikafka.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from minikafka.protocol.messages.sasl_authenticate import SaslAuthenticateRequest

from .conftest import MakeBroker
from .group_support import GroupBroker
from .test_authentication import BAD, GOOD, Locked, connect, handshake, locked
from .test_permissions import STANDARD

__all__ = ["locked"]


def watched(edge: Edge, monkeypatch: pytest.MonkeyPatch) -> list[Mapping[str, Any]]:
    """Turn auditing on; return the list of what is told from now on."""
    told: list[Mapping[str, Any]] = []

    def note(happening: Happening | None) -> None:
        assert happening is not None
        told.append(happening.data)

    edge.audit_feed.is_on = True
    monkeypatch.setattr(edge.audit_feed, "note", note)
    return told


@pytest.fixture
async def groups(tmp_path: Path) -> AsyncIterator[GroupBroker]:
    made = await GroupBroker(tmp_path).open()
    yield made
    await made.close()


async def test_a_login_that_fails_is_told_and_one_that_succeeds_is_not(
    locked: Locked,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = locked()
    told = watched(broker.edge, monkeypatch)
    for token in (GOOD, BAD):
        client = connect(broker)
        handshake(client)
        client.send(SaslAuthenticateRequest(auth_bytes=token), 2)
    (only,) = told
    assert (only["host"], only["resource"]) == ("10.0.0.9", "listener/LOCKED")
    assert only["error_code"] == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "no" not in only["reason"].split()


async def test_a_denial_is_told_once_in_ten_seconds(
    make_broker: MakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = make_broker(**STANDARD)
    told = watched(broker.edge, monkeypatch)
    client = broker.connect()
    for _ in range(3):
        client.ask(DeleteTopicsRequest(topic_names=["absent"], timeout_ms=1), 5)
    (only,) = told
    assert (only["principal"], only["action"]) == ("User:ANONYMOUS", "DeleteTopics")
    assert (only["resource"], only["operation"]) == ("topic/absent", "DELETE")


async def test_deleted_offsets_and_groups_are_told_and_refused_ones_are_not(
    groups: GroupBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = watched(groups.edge, monkeypatch)
    await groups.commit((0, 5), (1, 6), generation_id_or_member_epoch=-1, member_id="")
    partitions = [OffsetDeleteRequestPartition(partition_index=index) for index in (0, 77)]
    topics = [OffsetDeleteRequestTopic(name="t", partitions=partitions)]
    await groups.ask(OffsetDeleteRequest(group_id="g", topics=topics), 0)
    await groups.ask(DeleteGroupsRequest(groups_names=["g", "unheard"]), 2)
    await groups.ask(DeleteGroupsRequest(groups_names=["g"]), 2)
    offsets, deleted = told
    assert offsets["action"] == "OffsetDelete"
    assert offsets["changes"] == [
        {"resource": "group/g", "aspect": "offset of t-0", "before": "committed", "after": None}
    ]
    assert deleted["changes"] == [
        {"resource": "group/g", "aspect": "group", "before": "empty", "after": None}
    ]
    assert deleted["principal"] == "User:ANONYMOUS"
