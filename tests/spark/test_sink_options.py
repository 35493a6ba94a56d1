"""Options of the sink that are ours: what is promised, and under which name."""

import pytest

from minikafka.spark.options import OptionError
from minikafka.spark.sink_options import Delivery, Fallback, parse_sink
from tests.spark.fake_cluster import SERVERS

EXACT = {**SERVERS, "delivery": "exactly_once"}


def test_at_least_once_is_what_nobody_asked_for() -> None:
    found = parse_sink(SERVERS)
    assert (found.delivery, found.fallback) == (Delivery.AT_LEAST_ONCE, Fallback.REFUSE)
    assert (found.sink_id, found.batch_id) == (None, None)


def test_exactly_once_with_all_that_belongs_to_it() -> None:
    found = parse_sink(
        {**EXACT, "sinkId": "a:b.c_d-1", "batchId": "0", "exactlyOnceFallback": "Ledger"}
    )
    assert (found.delivery, found.fallback) == (Delivery.EXACTLY_ONCE, Fallback.LEDGER)
    assert (found.sink_id, found.batch_id) == ("a:b.c_d-1", 0)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({**SERVERS, "delivery": "once"}, "'once': write at_least_once or exactly_once"),
        ({**EXACT, "exactlyOnceFallback": "no"}, "'no': write refuse or ledger"),
        ({**SERVERS, "sinkId": "a"}, "'sinkId' = 'a': only delivery=exactly_once"),
        ({**SERVERS, "batchId": "1"}, "'batchId' = '1': only delivery=exactly_once"),
        ({**SERVERS, "exactlyOnceFallback": "ledger"}, "only delivery=exactly_once"),
        ({**EXACT, "sinkId": "a/b"}, "'sinkId' = 'a/b': 1 to 200 letters"),
        ({**EXACT, "sinkId": "a" * 201}, "1 to 200 letters"),
        ({**EXACT, "batchId": "1"}, "give sinkId too"),
        ({**EXACT, "sinkId": "a", "batchId": "-1"}, "at least 0"),
        ({**EXACT, "kafka.acks": "1"}, "exactly_once needs acks=all"),
        ({**EXACT, "kafka.enable.idempotence": "false"}, r"kafka\.enable\.idempotence"),
        ({**EXACT, "kafka.transactional.id": "x"}, "names its transactions itself"),
        ({**SERVERS, "kafka.transactional.id": "x"}, "names its transactions itself"),
        ({**EXACT, "sinkid ": "a"}, "did you mean sinkId"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, str], match: str) -> None:
    with pytest.raises(OptionError, match=match):
        parse_sink(options)


def test_a_streaming_query_counts_its_batches_itself() -> None:
    assert parse_sink({**EXACT, "sinkId": "a"}, streaming=True).sink_id == "a"
    with pytest.raises(OptionError, match="counts its batches itself"):
        parse_sink({**EXACT, "sinkId": "a", "batchId": "1"}, streaming=True)
