"""A controller that lost its disk: it follows without a vote until an operator readmits it."""

import shutil
from pathlib import Path

import pytest

from minikafka import Admin, MetadataQuorum, NewTopic, QuorumReplica

from ..support.cluster import Cluster, Daemon, running_cluster, wait_until

pytestmark = pytest.mark.slow


def observer(quorum: MetadataQuorum, node_id: int) -> QuorumReplica | None:
    """The copy of a node that has no vote and has everything."""
    found = [one for one in quorum.observers if one.node_id == node_id]
    return found[0] if found and found[0].log_end_offset >= quorum.high_watermark else None


def is_voting(quorum: MetadataQuorum, copy: QuorumReplica) -> bool:
    """Does the node vote from this disk, and has it everything?"""
    return any(
        voter.directory_id == copy.directory_id and voter.log_end_offset >= quorum.high_watermark
        for voter in quorum.voters
    )


def standby(cluster: Cluster, admin: Admin) -> Daemon:
    leader = admin.describe_metadata_quorum().leader_id
    return next(one for one in cluster.controllers if one.node_id != leader)


def test_a_voter_on_an_empty_disk_votes_again_once_it_is_readmitted(tmp_path: Path) -> None:
    with (
        running_cluster(tmp_path, brokers=1, controllers=3) as cluster,
        Admin(cluster.bootstrap) as admin,
    ):
        admin.create_topics([NewTopic("before", 1, 1)])
        lost = standby(cluster, admin)
        lost.kill()
        shutil.rmtree(lost.data)
        lost.start()
        copy = wait_until(lambda: observer(admin.describe_metadata_quorum(), lost.node_id))
        assert not is_voting(admin.describe_metadata_quorum(), copy)
        others = [one for one in cluster.controllers if one is not lost]
        for other in others:
            readmitted = f"{lost.node_id}:{copy.directory_id}"
            other.settings["controller.quorum.readmitted.voters"] = readmitted
            other.restart()
            admin.create_topics([NewTopic(f"after-{other.node_id}", 1, 1)])
        wait_until(lambda: is_voting(admin.describe_metadata_quorum(), copy))
        # Its vote and its disk are needed now.
        others[0].kill()
        admin.create_topics([NewTopic("two-of-three", 1, 1)])
        del others[0].settings["controller.quorum.readmitted.voters"]
        others[0].start()
        others[1].kill()
        admin.create_topics([NewTopic("two-others", 1, 1)])
