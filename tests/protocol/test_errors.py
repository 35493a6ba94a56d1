"""The error table against kio's, and what stands in it."""

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode

from minikafka.protocol.errors import MOST_DETAIL, ApiError, ErrorCode


def test_every_code_of_kafka_is_there_and_no_other() -> None:
    assert {code.value: code.name for code in ErrorCode} == {
        code.value: code.name.upper() for code in KioErrorCode
    }


def test_the_same_codes_may_be_retried() -> None:
    retriable = {code.name.upper() for code in KioErrorCode if code.retriable}
    assert {code.name for code in ErrorCode if code.retriable} == retriable


def test_codes_that_mean_stale_metadata_may_all_be_retried() -> None:
    stale = [code.name for code in ErrorCode if code.stale_metadata]
    assert all(ErrorCode[name].retriable for name in stale)
    assert stale == [
        "UNKNOWN_TOPIC_OR_PARTITION",
        "LEADER_NOT_AVAILABLE",
        "NOT_LEADER_OR_FOLLOWER",
        "REPLICA_NOT_AVAILABLE",
        "NETWORK_EXCEPTION",
        "KAFKA_STORAGE_ERROR",
        "LISTENER_NOT_FOUND",
        "FENCED_LEADER_EPOCH",
        "PREFERRED_LEADER_NOT_AVAILABLE",
        "ELIGIBLE_LEADERS_NOT_AVAILABLE",
        "ELECTION_NOT_NEEDED",
        "UNKNOWN_TOPIC_ID",
        "INCONSISTENT_TOPIC_ID",
    ]


@pytest.mark.parametrize("code", ErrorCode)
def test_every_code_has_its_sentence(code: ErrorCode) -> None:
    assert code.doc.endswith(".")
    assert len(code.doc) > 8


@pytest.mark.parametrize("code", [134, 999, -2, 32767])
def test_a_code_from_the_future_is_an_unknown_server_error(code: int) -> None:
    assert ErrorCode(code) is ErrorCode.UNKNOWN_SERVER_ERROR


def test_an_api_error_says_code_and_detail() -> None:
    assert str(ApiError(ErrorCode.INVALID_CONFIG, "retention.ms=x")) == (
        "INVALID_CONFIG: retention.ms=x"
    )
    assert "no error" in str(ApiError(ErrorCode.NONE)).lower()


def test_a_text_that_quotes_a_client_fits_a_string_of_the_protocol() -> None:
    error = ApiError(ErrorCode.INVALID_CONFIG, f"{'é' * 32_000} is no key")
    assert len(error.detail) == MOST_DETAIL
    assert error.detail.endswith("é …")
    assert len(str(error).encode()) < 32_767
