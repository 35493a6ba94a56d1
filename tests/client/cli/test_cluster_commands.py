"""`leader-election`, `metadata-quorum`, `features`: what they ask for and what they print."""

from pathlib import Path

import pytest

from minikafka.client.admin.cluster_types import (
    FeatureLevels,
    FeatureMetadata,
    FeatureUpdate,
    MetadataQuorum,
    QuorumReplica,
    UpgradeType,
)
from minikafka.client.admin.topic_types import ElectionType
from minikafka.client.cli.metadata_quorum import replication_lines
from minikafka.protocol.errors import ApiError, ErrorCode
from minikafka.protocol.types import TopicPartition

from .conftest import Run
from .fake_admin import FakeAdmin

AT = ("--bootstrap-server", "localhost:9092")
ELECT = ("leader-election", *AT, "--election-type")
QUORUM = ("metadata-quorum", *AT)
FEATURES = ("features", *AT)
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
ELR = "eligible.leader.replicas.version"

# -- leader-election


def test_every_outcome_of_an_election_is_told(run: Run, admin: FakeAdmin) -> None:
    away = ApiError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "broker 2 is away")
    needless = ApiError(ErrorCode.ELECTION_NOT_NEEDED)
    admin.elections = {B0: None, A0: None, A1: needless, TopicPartition("c", 0): away}
    code, out, err = run(*ELECT, "PREFERRED", "--all-topic-partitions")
    assert code == 1
    assert out == (
        "Successfully completed leader election (PREFERRED) for partitions a-0, b-0\n"
        "Valid replica already elected for partitions a-1\n"
    )
    assert err == (
        "Error completing leader election (PREFERRED) for partition: c-0: "
        "PREFERRED_LEADER_NOT_AVAILABLE: broker 2 is away\n"
        "1 replica(s) could not be elected\n"
    )
    assert admin.asked == [("elect", ElectionType.PREFERRED, None)]


def test_partitions_are_named_by_flags_or_in_a_file(
    run: Run, admin: FakeAdmin, tmp_path: Path
) -> None:
    assert run(*ELECT, "unclean", "--topic", "a", "--partition", 1) == (0, "", "")
    file = tmp_path / "partitions.json"
    file.write_text('{"partitions": [{"topic": "a", "partition": 0}, {"topic":"b","partition":0}]}')
    assert run(*ELECT, "unclean", "--path-to-json-file", file).code == 0
    assert admin.asked == [
        ("elect", ElectionType.UNCLEAN, [A1]),
        ("elect", ElectionType.UNCLEAN, [A0, B0]),
    ]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ((), "needs exactly one of --all-topic-partitions, --topic or --path-to-json-file"),
        (("--topic", "a", "--all-topic-partitions"), "needs exactly one of"),
        (("--topic", "a"), "--topic and --partition need each other"),
        (("--all-topic-partitions", "--partition", "1"), "--topic and --partition need each other"),
        (("--path-to-json-file", "/no/file"), "does not exist"),
    ],
)
def test_an_election_of_what(
    run: Run, admin: FakeAdmin, flags: tuple[str, ...], words: str
) -> None:
    code, out, err = run(*ELECT, "preferred", *flags)
    assert (code, out) == (2, "")
    assert words in err
    assert admin.asked == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "must hold an object"),
        ("{", "is no JSON"),
        ('{"version": 2, "partitions": []}', "is of version 2"),
        ('{"partitions": [{"topic":"a","partition":0},{"topic":"a","partition":0}]}', "twice"),
    ],
)
def test_a_file_that_cannot_be_meant(
    run: Run, admin: FakeAdmin, tmp_path: Path, text: str, words: str
) -> None:
    file = tmp_path / "partitions.json"
    file.write_text(text)
    code, _, err = run(*ELECT, "unclean", "--path-to-json-file", file)
    assert code == 2
    assert words in err


# -- metadata-quorum

ID = "ILZ5MPTeRWakmJu99uBJCA"
NONE = "A" * 22


def quorum() -> MetadataQuorum:
    return MetadataQuorum(
        leader_id=3002,
        leader_epoch=4,
        high_watermark=90,
        voters=(
            QuorumReplica(3001, ID, 80, 5_000, 4_000),
            QuorumReplica(3002, NONE, 100, None, 6_000),
            QuorumReplica(3003, ID, 95, 5_900, 5_500),
        ),
        observers=(QuorumReplica(1, ID, -1),),
        endpoints={3001: ("CONTROLLER://h:9095",)},
    )


def test_the_status_of_the_quorum(run: Run, admin: FakeAdmin) -> None:
    admin.quorum = quorum()
    code, out, err = run(*QUORUM, "describe", "--status")
    assert (code, err) == (0, "")
    assert out == (
        "ClusterId:              a-cluster\n"
        "LeaderId:               3002\n"
        "LeaderEpoch:            4\n"
        "HighWatermark:          90\n"
        "MaxFollowerLag:         20\n"
        "MaxFollowerLagTimeMs:   2000\n"
        'CurrentVoters:          [{"id": 3001, "directoryId": "ILZ5MPTeRWakmJu99uBJCA", '
        '"endpoints": ["CONTROLLER://h:9095"]}, {"id": 3002, "directoryId": null}, '
        '{"id": 3003, "directoryId": "ILZ5MPTeRWakmJu99uBJCA"}]\n'
        'CurrentObservers:       [{"id": 1, "directoryId": "ILZ5MPTeRWakmJu99uBJCA"}]\n'
    )


def test_a_quorum_of_one_lags_behind_nobody(run: Run, admin: FakeAdmin) -> None:
    admin.quorum = MetadataQuorum(3001, 4, 90, (QuorumReplica(3001, ID, 90),))
    _, out, _ = run("metadata-quorum", "describe", "--status", *AT)
    assert "MaxFollowerLag:         0\nMaxFollowerLagTimeMs:   0\n" in out


def test_the_replication_of_the_quorum(run: Run, admin: FakeAdmin) -> None:
    admin.quorum = quorum()
    code, out, err = run(*QUORUM, "describe", "--replication")
    assert (code, err) == (0, "")
    rows = [[cell.strip() for cell in line.split("\t")[:-1]] for line in out.splitlines()]
    assert rows == [
        [
            "NodeId",
            "DirectoryId",
            "LogEndOffset",
            "Lag",
            "LastFetchTimestamp",
            "LastCaughtUpTimestamp",
            "Status",
        ],
        ["3002", NONE, "100", "0", "-1", "6000", "Leader"],
        ["3001", ID, "80", "20", "5000", "4000", "Follower"],
        ["3003", ID, "95", "5", "5900", "5500", "Follower"],
        ["1", ID, "-1", "-1", "-1", "-1", "Observer"],
    ]
    assert len({line.index("\t") for line in out.splitlines()}) == 1
    shown = replication_lines(quorum(), now_ms=6_500)
    assert "1500 ms ago" in shown[2]
    assert "2500 ms ago" in shown[2]


def test_a_quorum_that_nobody_leads(run: Run, admin: FakeAdmin) -> None:
    admin.quorum = ApiError(ErrorCode.REQUEST_TIMED_OUT, "no controller could be reached")
    code, out, err = run(*QUORUM, "describe", "--status")
    assert (code, out) == (1, "")
    assert err == "Error while executing quorum command: no controller could be reached\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("metadata-quorum", "describe", "--status"), "needs either --bootstrap-server or"),
        ((*QUORUM, "--bootstrap-controller", "h:1", "describe", "--status"), "needs either"),
        ((*QUORUM, "describe"), "needs either --status or --replication"),
        ((*QUORUM, "describe", "--status", "--replication"), "either --status or --replication"),
        ((*QUORUM, "describe", "--status", "--human-readable"), "belongs to --replication"),
        (("metadata-quorum", "--bootstrap-controller", "h", "describe", "--status"), "host:port"),
        ((*QUORUM, "remove-controller"), "is not 'describe'"),
    ],
)
def test_a_question_about_the_quorum_that_cannot_be(
    run: Run, admin: FakeAdmin, arguments: tuple[str, ...], words: str
) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert words in err


# -- features


def test_features_are_described(run: Run, admin: FakeAdmin) -> None:
    """In the columns of Kafka 4.3.1; a level without a release's name is shown as it is."""
    admin.features = FeatureMetadata(
        {"metadata.version": 30, "old": 3},
        {"metadata.version": FeatureLevels(1, 30), ELR: FeatureLevels(0, 1)},
        epoch=12,
    )
    code, out, err = run(*FEATURES, "describe")
    assert (code, err) == (0, "")
    assert out == (
        "Feature: eligible.leader.replicas.version          SupportedMinVersion: 0                "
        "SupportedMaxVersion: 1                FinalizedVersionLevel: 0                Epoch: 12\n"
        "Feature: metadata.version                          SupportedMinVersion: 1                "
        "SupportedMaxVersion: 4.3-IV0          FinalizedVersionLevel: 4.3-IV0          Epoch: 12\n"
        "Feature: old                                       SupportedMinVersion: -                "
        "SupportedMaxVersion: -                FinalizedVersionLevel: 3                Epoch: 12\n"
    )


@pytest.mark.parametrize(
    ("arguments", "level", "kind", "is_dry", "words"),
    [
        (("upgrade", "--feature", f"{ELR}=1"), 1, UpgradeType.UPGRADE, False, "was upgraded to 1"),
        (
            ("downgrade", "--feature", f"{ELR}=0"),
            0,
            UpgradeType.SAFE_DOWNGRADE,
            False,
            "was downgraded to 0",
        ),
        (
            ("disable", "--feature", ELR, "--unsafe"),
            0,
            UpgradeType.UNSAFE_DOWNGRADE,
            False,
            "was disabled",
        ),
        (
            ("upgrade", "--feature", f"{ELR}=1", "--dry-run"),
            1,
            UpgradeType.UPGRADE,
            True,
            "can be upgraded to 1",
        ),
    ],
)
def test_levels_are_changed(
    run: Run,
    admin: FakeAdmin,
    arguments: tuple[str, ...],
    level: int,
    kind: UpgradeType,
    is_dry: bool,
    words: str,
) -> None:
    assert run(*FEATURES, *arguments) == (0, f"{ELR} {words}.\n", "")
    assert admin.asked == [("features", {ELR: FeatureUpdate(level, kind)}, is_dry)]


def test_a_refused_level(run: Run, admin: FakeAdmin) -> None:
    admin.refused = {ELR: ApiError(ErrorCode.INVALID_UPDATE_VERSION, "broker 2 is too old")}
    code, out, err = run(*FEATURES, "upgrade", "--feature", f"{ELR}=1", "--metadata", 1)
    assert (code, out) == (1, "")
    assert err == (
        f"Could not upgrade {ELR} to 1. broker 2 is too old\n"
        "Could not upgrade metadata.version to 1. broker 2 is too old\n"
        "2 out of 2 operation(s) failed.\n"
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("upgrade",), "upgrade needs --feature"),
        (("upgrade", "--feature", "f"), "must be key=value"),
        (("upgrade", "--feature", "f=x"), "the level must be a number"),
        (("upgrade", "--feature", "f=1", "--unsafe"), "--unsafe belongs to"),
        (("describe", "--feature", "f=1"), "describe takes no levels"),
        (("disable", "--metadata", "1"), "metadata.version cannot be disabled"),
    ],
)
def test_levels_that_cannot_be_meant(
    run: Run, admin: FakeAdmin, arguments: tuple[str, ...], words: str
) -> None:
    code, out, err = run(*FEATURES, *arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert admin.asked == []
