"""The checker of transaction histories finds each fault that it should find."""

from minikafka.protocol.errors import ErrorCode

from .transaction_history import LEDGER, PIPED, Outcome, TransactionHistory

PLACE, OTHER = (LEDGER, 0), (LEDGER, 1)


def one(outcome: Outcome, *visible: bytes) -> list[str]:
    """Check a transaction of two records, of which these are visible in the end."""
    history = TransactionHistory()
    transaction = history.begin("p:1")
    transaction.records = [(PLACE, b"p:1:0"), (OTHER, b"p:1:1")]
    transaction.outcome = outcome
    history.final = {PLACE: [], OTHER: []}
    for value in visible:
        place = PLACE if value.endswith(b"0") else OTHER
        history.final[place].append((len(history.final[place]), value))
    return history.check({})


def test_all_or_nothing() -> None:
    assert one(Outcome.COMMITTED, b"p:1:0", b"p:1:1") == []
    assert one(Outcome.ABORTED) == []
    assert one(Outcome.UNKNOWN) == []
    assert one(Outcome.UNKNOWN, b"p:1:0", b"p:1:1") == []
    assert one(Outcome.UNKNOWN, b"p:1:1") == ["torn: transaction p:1, unknown: 1 of 2 visible"]


def test_what_its_producer_knew() -> None:
    lost = "lost: transaction p:1, committed: 1 of 2 visible"
    assert one(Outcome.COMMITTED, b"p:1:0") == [lost]
    aborted = "aborted read: transaction p:1, aborted: 2 of 2 visible"
    assert one(Outcome.ABORTED, b"p:1:0", b"p:1:1") == [aborted]


def test_what_no_producer_that_sends_in_order_is_told() -> None:
    history = TransactionHistory()
    history.refused = [
        (PLACE, "p:1", ErrorCode.INVALID_PRODUCER_EPOCH),
        (OTHER, "p:2", ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
    ]
    found = ["refused: a batch of transaction p:2 in ledger-1: OUT_OF_ORDER_SEQUENCE_NUMBER"]
    assert history.check({}) == found
    assert history.check({OTHER: None}) == []


def test_what_nobody_wrote_and_what_is_there_twice() -> None:
    assert "invented: b'x0' is visible in ledger-0" in one(Outcome.UNKNOWN, b"x0")
    twice = one(Outcome.COMMITTED, b"p:1:0", b"p:1:0", b"p:1:1")
    assert twice == ["duplicate: p:1:0 is visible twice in ledger-0"]


def two(*values: bytes) -> TransactionHistory:
    """Return a history of two committed transactions of one record each, visible in this order."""
    history = TransactionHistory()
    for number in (1, 2):
        transaction = history.begin(f"p:{number}")
        transaction.records = [(PLACE, b"p:%d:0" % number)]
        transaction.outcome = Outcome.COMMITTED
    history.final = {PLACE: [(2 * at, value) for at, value in enumerate(values)]}
    return history


def test_order_within_a_producer() -> None:
    assert two(b"p:1:0", b"p:2:0").check({}) == []
    assert two(b"p:2:0", b"p:1:0").check({}) == ["reordered: p:1:0 at ledger-0 offset 2"]


def test_a_reader_sees_what_is_committed_and_all_of_it() -> None:
    history = two(b"p:1:0", b"p:2:0")
    history.polled["auditor"] = [(PLACE, 0, b"p:1:0"), (PLACE, 2, b"p:2:0")]
    assert history.check({}) == []
    history.polled["auditor"] = [(PLACE, 0, b"p:1:0"), (PLACE, 1, b"never"), (PLACE, 2, b"p:2:0")]
    (found,) = history.check({})
    assert found.startswith("auditor at ledger-0: read (1, b'never')")
    assert history.check({PLACE: None}) == []


def test_a_pipe_writes_each_record_once() -> None:
    history = two(b"p:1:0", b"p:2:0")
    history.piped_to = {PLACE: 1}
    history.final[PIPED, 0] = [(0, b"p:1:0")]
    assert history.check({}) == []
    history.piped_to = {PLACE: 3}
    assert history.check({}) == ["lost: p:2:0 was not piped, and 3 is committed"]
    history.final[PIPED, 0] = [(0, b"p:1:0"), (2, b"p:2:0"), (4, b"p:2:0")]
    assert history.check({}) == ["duplicate: p:2:0 was piped 2 times"]


def batches(recorded: int, *visible: bytes) -> list[str]:
    """Check two attempts at batch 0 and one at batch 1, all with an unknown outcome."""
    history = TransactionHistory()
    for batch, name in ((0, "d-0-1"), (0, "d-0-2"), (1, "d-1-3")):
        attempt = history.begin_batch(batch, name)
        attempt.records = [(PLACE, f"{name}:0".encode())]
    history.final = {PLACE: [(at, value) for at, value in enumerate(visible)]}
    history.note_recorded(recorded)
    return history.check({})


def test_one_attempt_at_a_batch_counts() -> None:
    assert batches(-1) == []
    assert batches(0, b"d-0-2:0") == []
    assert batches(1, b"d-0-1:0", b"d-1-3:0") == []
    twice = "duplicate: batch 0 is visible as d-0-1 and d-0-2"
    assert batches(0, b"d-0-1:0", b"d-0-2:0") == [twice]


def test_what_is_recorded_is_there_and_was_tried() -> None:
    assert batches(1, b"d-0-1:0") == ["lost: batch 1 is recorded, and no attempt at it is visible"]
    told = batches(2, b"d-0-1:0", b"d-1-3:0")
    assert told == ["invented: batch 2 is recorded, and nobody has tried it"]
