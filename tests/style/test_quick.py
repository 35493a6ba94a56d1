"""`make quick` runs the tests of pure modules, whoever wrote them, and no others."""

import pytest

from ..support.pure import TESTS, modules, needs_no_more


def test_it_runs_the_tests_of_machines_and_codecs_and_not_those_of_drivers() -> None:
    found = {path.relative_to(TESTS).as_posix() for path in modules()}
    assert {"broker/test_leader.py", "client/test_membership.py", "protocol/test_codec.py"} <= found
    assert {"controller/test_partitions.py", "golden/test_quorum.py"} <= found
    assert found.isdisjoint({"broker/test_partition.py", "client/test_real_brokers.py"})


@pytest.mark.parametrize(
    ("source", "is_quick"),
    [
        ("from minikafka.broker.replica.leader import LeaderReplica", True),
        ("from minikafka import TopicPartition\nfrom hypothesis import given", True),
        ("from minikafka import Producer", False),
        ("from minikafka.broker.partition.partition import Partition", False),
        ("from .edge_support import FakeBroker", False),
        ("import subprocess", False),
        ("async def test_it() -> None: pass", False),
    ],
)
def test_what_a_test_imports_decides(source: str, is_quick: bool) -> None:
    module = TESTS / "broker" / "test_that_is_not_there.py"
    assert needs_no_more(module, source) == is_quick
