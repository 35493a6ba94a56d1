"""The client of bad requests: a wrong answer is a violation, no answer is none."""

import pytest

from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from minikafka.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from minikafka.protocol.messages.end_txn import EndTxnResponse

from . import scenario
from .coverage import REFUSALS
from .refusals import Refused, Unsaid, errors_of
from .refused_groups import Group

SEED = next(seed for seed in range(100) if scenario.shape_of(seed).refuses)


async def expects_too_much(refused: Refused) -> None:
    """Expect success from the deletion of a topic that does not exist, which is wrong."""
    topics = [DeleteTopicState(name="no-such-topic")]
    request = DeleteTopicsRequest(topics=topics, timeout_ms=2000)
    await refused.due(refused.somebody(), request, ErrorCode.NONE)


async def hears_nothing(refused: Refused) -> None:
    raise Unsaid("nobody there")


def test_every_story_is_told_to_its_end_when_all_is_whole() -> None:
    told = scenario.Scenario(SEED, 0.5)
    outcome = told.run()
    assert outcome.violation is None
    assert tuple(told.refused.stories) == REFUSALS
    assert [name for name in REFUSALS if not outcome.coverage.counts[f"refusal {name}"]] == []


def test_an_answer_that_is_not_due_is_a_violation() -> None:
    told = scenario.Scenario(SEED, 0.5)
    told.refused.stories = {"topics": expects_too_much}
    violation = told.run().violation
    assert violation is not None
    assert "is answered UNKNOWN_TOPIC_OR_PARTITION, due is NONE" in violation


def test_where_nobody_answers_nothing_is_said() -> None:
    told = scenario.Scenario(SEED, 0.5)
    told.refused.stories = {"topics": hears_nothing}
    outcome = told.run()
    assert outcome.violation is None
    assert outcome.coverage.counts["refusal topics"] == 0


def test_who_joins_when_a_fault_ends_the_story_is_not_left_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def hears_no_more(*_: object) -> None:
        raise Unsaid("nobody there")

    monkeypatch.setattr(Group, "until_moving", hears_no_more)
    told = scenario.Scenario(SEED, 0.5)
    told.refused.stories = {"static-members": told.refused.stories["static-members"]}
    assert told.run().violation is None


@pytest.mark.parametrize(
    ("answer", "codes"),
    [
        (EndTxnResponse(error_code=47), [ErrorCode.INVALID_PRODUCER_EPOCH]),
        (
            DeleteGroupsResponse(
                results=[
                    DeletableGroupResult(group_id="a"),
                    DeletableGroupResult(group_id="b", error_code=69),
                ]
            ),
            [ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND],
        ),
    ],
)
def test_errors_are_found_wherever_an_answer_has_them(
    answer: object, codes: list[ErrorCode]
) -> None:
    assert list(errors_of(answer)) == codes
