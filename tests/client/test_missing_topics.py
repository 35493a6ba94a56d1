"""Topics that a client watches and the cluster does not have."""

from minikafka.client.missing_topics import CREATION_MS, PATIENCE_MS, MissingTopics
from minikafka.protocol.errors import ErrorCode

UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
NOT_YET = ErrorCode.LEADER_NOT_AVAILABLE
INVALID = ErrorCode.INVALID_TOPIC_EXCEPTION
LATER = PATIENCE_MS


def test_a_topic_that_stays_missing_is_said_once_with_the_names_that_are_near() -> None:
    missing = MissingTopics()
    assert missing.on_answer({"fligths": UNKNOWN}, ["fligths"], 0) == []
    assert missing.said_of("fligths") is None
    assert missing.on_answer({"fligths": UNKNOWN}, ["fligths"], LATER) == ["fligths"]
    said = missing.say("fligths", ["bookings", "flights", "flight"])
    what = "the cluster does not have it; did you mean flights or flight?"
    assert said == f"topic fligths: {what}"
    assert missing.said_of("fligths") == what
    assert missing.on_answer({"fligths": UNKNOWN}, ["fligths"], 9 * LATER) == []


def test_a_topic_that_came_and_went_is_said_again() -> None:
    missing = MissingTopics()
    for since_ms in (0, 10 * LATER):
        assert missing.on_answer({"t": UNKNOWN}, ["t"], since_ms) == []
        assert missing.on_answer({"t": UNKNOWN}, ["t"], since_ms + LATER) == ["t"]
        assert missing.say("t", []) == "topic t: the cluster does not have it"
        assert missing.on_answer({}, ["t"], since_ms + 2 * LATER) == []
        assert missing.said_of("t") is None


def test_another_reason_is_news() -> None:
    missing = MissingTopics()
    missing.on_answer({"t": UNKNOWN}, ["t"], 0)
    assert missing.on_answer({"t": UNKNOWN}, ["t"], LATER) == ["t"]
    missing.say("t", [])
    assert missing.on_answer({"t": NOT_YET}, ["t"], 2 * LATER) == []
    assert missing.on_answer({"t": NOT_YET}, ["t"], 3 * LATER) == ["t"]
    assert missing.say("t", []).startswith("topic t: LEADER_NOT_AVAILABLE: ")


def test_what_waiting_does_not_mend_is_said_at_once() -> None:
    missing = MissingTopics()
    assert missing.on_answer({"bad/name": INVALID}, ["bad/name"], 0) == ["bad/name"]
    assert "INVALID_TOPIC_EXCEPTION" in missing.say("bad/name", [])


def test_a_topic_that_nobody_watches_any_more_is_not_said() -> None:
    missing = MissingTopics()
    missing.on_answer({"t": UNKNOWN}, ["t"], 0)
    assert missing.on_answer({"t": UNKNOWN}, [], LATER) == []
    assert missing.on_answer({"t": UNKNOWN}, ["t"], LATER) == []


def test_a_topic_that_is_created_by_asking_for_it_gets_more_time() -> None:
    missing = MissingTopics(auto_create=True)
    missing.on_answer({"t": UNKNOWN}, ["t"], 0)
    assert missing.on_answer({"t": UNKNOWN}, ["t"], CREATION_MS - 1) == []
    assert missing.on_answer({"t": UNKNOWN}, ["t"], CREATION_MS) == ["t"]
