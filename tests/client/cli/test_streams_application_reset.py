"""`streams-application-reset`: what it does to an application, and says in Kafka's words."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from minikafka.client.admin.group_types import GroupDescription, GroupMember
from minikafka.client.cli.streams_application_reset import is_internal
from minikafka.client.errors import AdminError
from minikafka.client.group_types import OffsetAndMetadata
from minikafka.client.offsets import ListedOffset
from minikafka.protocol.errors import ApiError, ErrorCode
from minikafka.protocol.types import TopicPartition

from .conftest import Run
from .fake_admin import FakeAdmin

RESET = ("streams-application-reset", "--bootstrap-server", "localhost:1", "--application-id=app")
I0, I1 = TopicPartition("in1", 0), TopicPartition("in1", 1)
J0 = TopicPartition("in2", 0)
CHANGELOG, REPARTITION = "app-KSTREAM-AGG-0001-changelog", "app-KSTREAM-AGG-0001-repartition"
MEMBER = GroupMember("m-1", None, "c", "h", ())

# The lines of kafka-streams-application-reset.sh of Kafka 4.3.1, which does not sort partitions.
DRY = """\
----Dry run displays the actions which will be performed when running Streams Reset Tool----
Reset-offsets for input topics [in1, in2, nope]
Seek-to-end for intermediate topics [in2]
Following input topics are not found, skipping them
Topic: nope
Following input topics offsets will be reset to (for consumer group app)
Topic: in1 Partition: 0 Offset: 10
Topic: in1 Partition: 1 Offset: 10
Topic: in2 Partition: 0 Offset: 10
Done.
Deleting inferred internal topics [app-KSTREAM-AGG-0001-changelog, app-KSTREAM-AGG-0001-repartition]
Done.
"""


class StreamsAdmin(FakeAdmin):
    """Logs from 10 to 100, a record each second from second 10 on."""

    def __init__(self) -> None:
        super().__init__()
        self.placement = dict.fromkeys(
            [I0, I1, J0, *(TopicPartition(name, 0) for name in (CHANGELOG, REPARTITION, "app-x"))],
            (1,),
        )
        self.members: tuple[GroupMember, ...] = ()
        self.is_known = True
        self.committed: dict[TopicPartition, OffsetAndMetadata] = {}
        self.moved_to: dict[TopicPartition, int] = {}
        self.deleted: list[str] = []

    async def describe_groups(self, names: Sequence[str]) -> dict[str, GroupDescription]:
        assert names == ["app"]
        if not self.is_known:
            raise AdminError({"app": ApiError(ErrorCode.GROUP_ID_NOT_FOUND)})
        state = "Stable" if self.members else "Empty"
        return {"app": GroupDescription("app", state, "stream", "", self.members, 1)}

    async def remove_members(self, group_id: str) -> None:
        self.asked.append(("remove", group_id))
        self.members = ()

    async def list_offsets(
        self, wanted: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, ListedOffset]:
        def at(when: int) -> int:
            second = when // 1000
            return {-1: 100, -2: 10}.get(when, second if 10 <= second < 100 else -1)

        return {one: ListedOffset(at(when), when, 0) for one, when in wanted.items()}

    async def list_group_offsets(self, group_id: str) -> dict[TopicPartition, OffsetAndMetadata]:
        assert group_id == "app"
        return self.committed

    async def alter_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int]
    ) -> None:
        assert group_id == "app"
        self.moved_to |= offsets

    async def delete_topics(self, names: Sequence[str]) -> None:
        if self.refused:
            raise AdminError(self.refused)
        self.deleted += names


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> StreamsAdmin:
    fake = StreamsAdmin()
    monkeypatch.setattr("minikafka.client.admin.admin.Admin", fake)
    return fake


def test_a_dry_run_says_what_kafkas_tool_says_and_does_nothing(
    run: Run, admin: StreamsAdmin
) -> None:
    flags = ("--input-topics", "in1,in2,nope", "--intermediate-topics", "in2", "--dry-run")
    assert run(*RESET, *flags) == (1, DRY, "")
    assert (admin.moved_to, admin.deleted, admin.asked) == ({}, [], [])


def test_offsets_are_reset_and_internal_topics_deleted(run: Run, admin: StreamsAdmin) -> None:
    flags = ("--input-topics", "in1", "--intermediate-topics", "in2")
    code, out, err = run(*RESET, *flags)
    assert (code, err) == (0, "")
    assert (
        "Following intermediate topics offsets will be reset to end (for consumer group app)\n"
        "Topic: in2\n"
    ) in out
    assert admin.moved_to == {I0: 10, I1: 10, J0: 100}
    assert admin.deleted == [CHANGELOG, REPARTITION], "app-x is no internal topic's name"


def test_an_application_that_nobody_knows_is_reset_all_the_same(
    run: Run, admin: StreamsAdmin
) -> None:
    admin.is_known = False
    code, out, _ = run(*RESET, "--dry-run")
    assert code == 0
    assert "No input or intermediate topics specified. Skipping seek.\n" in out


@pytest.mark.parametrize(
    ("flags", "offsets", "said"),
    [
        (("--to-earliest",), (10, 10), ""),
        (("--to-latest",), (100, 100), ""),
        (("--to-offset", "30"), (30, 30), ""),
        (("--to-offset", "300"), (100, 100), "New offset (300) is higher than latest offset"),
        (("--shift-by", "-5"), (35, 10), "New offset (5) is lower than earliest offset"),
        (("--to-datetime", "1970-01-01T00:00:50.000"), (50, 50), ""),
        (("--by-duration", "P1D"), (100, 100), "Falling back to latest known offset."),
    ],
)
def test_where_to_read_from(
    run: Run, admin: StreamsAdmin, flags: tuple[str, ...], offsets: tuple[int, int], said: str
) -> None:
    admin.committed = {I0: OffsetAndMetadata(40)}
    code, out, err = run(*RESET, "--input-topics", "in1", *flags)
    assert code == 0
    assert admin.moved_to == dict(zip((I0, I1), offsets, strict=True))
    assert f"Topic: in1 Partition: 0 Offset: {offsets[0]}\n" in out
    assert said in err
    assert bool(said) == bool(err)


def test_a_file_may_name_the_offsets(run: Run, admin: StreamsAdmin, tmp_path: Path) -> None:
    """A partition that it leaves out keeps its offset."""
    plan = tmp_path / "plan.csv"
    plan.write_text("in1,1,77\n")
    assert run(*RESET, "--input-topics", "in1", "--from-file", plan)[0] == 0
    assert admin.moved_to == {I1: 77}
    plan.write_text("in1,1,77\nin2,0,1\n")
    code, _, err = run(*RESET, "--input-topics", "in1", "--from-file", plan)
    assert code == 2
    assert "--from-file=in2-0: is no partition of --input-topics" in err


def test_an_application_that_runs_is_left_alone(run: Run, admin: StreamsAdmin) -> None:
    admin.members = (MEMBER,)
    code, out, err = run(*RESET, "--input-topics", "in1")
    assert (code, out) == (1, "")
    assert err == (
        "ERROR: Consumer group 'app' is still active and has following members: m-1. Make sure to "
        "stop all running application instances before running the reset tool. You can use option "
        "'--force' to remove active members from the group.\n"
    )
    assert (admin.moved_to, admin.deleted) == ({}, [])


@pytest.mark.parametrize("is_dry", [False, True])
def test_members_that_are_left_over_can_be_removed(
    run: Run, admin: StreamsAdmin, is_dry: bool
) -> None:
    """A dry run only says so; Kafka's tool removes them even then."""
    admin.members = (MEMBER,)
    code, out, _ = run(*RESET, "--force", *(["--dry-run"] if is_dry else []))
    assert code == 0
    assert "Force deleting all active members in the group: app\n" in out
    assert admin.asked == ([] if is_dry else [("remove", "app")])


def test_only_some_internal_topics(run: Run, admin: StreamsAdmin) -> None:
    code, out, _ = run(*RESET, "--internal-topics", CHANGELOG)
    assert code == 0
    assert f"Deleting specified internal topics [{CHANGELOG}]\nDone.\n" in out
    assert admin.deleted == [CHANGELOG]


def test_a_topic_that_is_not_internal_is_never_deleted(run: Run, admin: StreamsAdmin) -> None:
    """Nor are offsets touched then."""
    flags = ("--input-topics", "in1", "--internal-topics", f"{CHANGELOG},in1")
    code, out, err = run(*RESET, *flags)
    assert (code, out) == (1, "")
    assert "ERROR: Invalid topic specified in the --internal-topics option: in1. " in err
    assert (admin.moved_to, admin.deleted) == ({}, [])


def test_a_topic_that_cannot_be_deleted_is_named(run: Run, admin: StreamsAdmin) -> None:
    admin.refused = {CHANGELOG: ApiError(ErrorCode.TOPIC_DELETION_DISABLED, "no")}
    code, _, err = run(*RESET)
    assert (code, err) == (1, f"ERROR: deleting topic {CHANGELOG}: no\n")


def test_one_target_only(run: Run, admin: StreamsAdmin) -> None:
    code, _, err = run(*RESET, "--shift-by", -2, "--to-earliest")
    assert code == 2
    assert "--to-earliest can't be used with --shift-by" in err


@pytest.mark.parametrize(
    ("topic", "is_one"),
    [
        (CHANGELOG, True),
        ("app-changelog", True),
        ("app-KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-0000000006-topic", True),
        ("app-KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION--topic", False),
        ("app-subscription-response-topic", True),
        ("app-other", False),
        ("app-repartition-x", False),
        ("other-changelog", False),
        ("application-changelog", False),
        ("app", False),
    ],
)
def test_names_of_internal_topics(topic: str, is_one: bool) -> None:
    assert is_internal(topic, "app") is is_one
