import pytest

from minikafka.client.errors import ClientError
from minikafka.client.refusals import ADVICE, CommitFailed, InstanceFenced, Refused, refusal
from minikafka.protocol.errors import ApiError, ErrorCode


@pytest.mark.parametrize("code", [code for code in ErrorCode if code is not ErrorCode.NONE])
def test_every_code_becomes_an_exception_that_says_what_it_means_and_what_to_do(
    code: ErrorCode,
) -> None:
    error = refusal(code, "group g: committing offsets")
    assert isinstance(error, ClientError)
    assert isinstance(error, ApiError)
    assert (error.code, error.meaning) == (code, code.doc)
    assert error.advice
    text = str(error)
    assert text.startswith(f"group g: committing offsets: {code.name}: {code.doc} To do: ")
    assert text.endswith(f"{error.advice}.")


def test_what_passes_by_itself_and_what_does_not() -> None:
    assert "try again" in refusal(ErrorCode.REQUEST_TIMED_OUT).advice
    assert "refused again" in refusal(ErrorCode.INVALID_REQUEST).advice
    assert not any(advice.endswith(".") for advice in ADVICE.values())


def test_some_have_names_of_their_own() -> None:
    assert type(refusal(ErrorCode.FENCED_INSTANCE_ID)) is InstanceFenced
    assert type(refusal(ErrorCode.UNKNOWN_MEMBER_ID)) is Refused
    assert issubclass(CommitFailed, Refused)


BAD_INPUT = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.UNSUPPORTED_VERSION,
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    ErrorCode.INVALID_TOPIC_EXCEPTION,
    ErrorCode.INVALID_TXN_STATE,
)


@pytest.mark.parametrize("code", BAD_INPUT)
def test_what_users_get_wrong_has_advice_of_its_own(code: ErrorCode) -> None:
    assert code in ADVICE
