"""Names of mirrored topics, and loops that names tell."""

import pytest

from minikafka.connect.config_def import BadConfig
from minikafka.connect.mirror.keys import HEARTBEAT
from minikafka.connect.mirror.policy import DefaultPolicy, IdentityPolicy, policy_of

DEFAULT, IDENTITY = DefaultPolicy(), IdentityPolicy("A")


def test_a_mirrored_topic_has_the_alias_of_its_source() -> None:
    assert DEFAULT.remote("A", "orders") == "A.orders"
    assert [DEFAULT.source_of(each) for each in ("A.orders", "orders", "A.", ".x")] == [
        "A",
        None,
        None,
        "",
    ]
    assert DEFAULT.upstream("B.A.orders") == "A.orders"
    assert DEFAULT.upstream("orders") is None


def test_the_separator_may_be_another_one() -> None:
    policy = DefaultPolicy("_")
    assert policy.remote("A", "or.ders") == "A_or.ders"
    assert policy.offset_syncs("B") == "mm2-offset-syncs_B_internal"
    assert policy.checkpoints("A") == "A_checkpoints_internal"
    assert policy.is_internal("A_checkpoints_internal")
    plain = DefaultPolicy("_", is_separator_internal=False)
    assert plain.checkpoints("A") == "A.checkpoints.internal"


def test_internal_topics_are_known_by_their_names() -> None:
    names = ["__consumer_offsets", ".x", "a-internal", "mm2-offsets.A.internal", "internal"]
    assert [DEFAULT.is_internal(each) for each in names] == [True, True, True, True, False]


@pytest.mark.parametrize(
    ("topic", "is_cycle"),
    [
        ("orders", False),
        ("B.orders", True),
        ("C.B.orders", True),
        ("A.C.B.orders", True),
        ("C.orders", False),
        ("C.B", False),
        ("C.BB.orders", False),
    ],
)
def test_a_topic_that_passed_the_target_is_a_loop(topic: str, is_cycle: bool) -> None:
    assert DEFAULT.is_cycle(topic, "B") is is_cycle


def test_an_alias_may_hold_the_separator() -> None:
    assert DEFAULT.is_cycle("eu.west.orders", "eu.west")
    assert DEFAULT.is_cycle("C.eu.west.orders", "eu.west")
    assert not DEFAULT.is_cycle("eu.orders", "eu.west")


def test_heartbeats_are_known_over_any_number_of_hops() -> None:
    assert [DEFAULT.is_heartbeats(each) for each in ("heartbeats", "B.A.heartbeats", "beats")] == [
        True,
        True,
        False,
    ]


def test_identity_keeps_names_but_for_heartbeats() -> None:
    assert IDENTITY.remote("A", "orders") == "orders"
    assert IDENTITY.remote("A", "heartbeats") == "A.heartbeats"
    assert IDENTITY.source_of("orders") == "A"
    assert not IDENTITY.is_cycle("orders", "B")
    assert IDENTITY.is_cycle("B.heartbeats", "B")
    assert IDENTITY.is_heartbeats("B.heartbeats")
    assert not IDENTITY.is_heartbeats("orders")


def test_a_policy_is_named_with_its_package_or_without() -> None:
    props = {
        "source.cluster.alias": "A",
        "source.cluster.bootstrap.servers": "a:1",
        "target.cluster.bootstrap.servers": "b:1",
        "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
    }
    assert policy_of(HEARTBEAT.parse(props)).remote("A", "orders") == "orders"
    with pytest.raises(BadConfig, match=r"my\.Policy for configuration replication\.policy\.class"):
        HEARTBEAT.parse(props | {"replication.policy.class": "my.Policy"})
