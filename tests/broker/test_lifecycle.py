"""The life of a broker: what it asks of the controller, and when it may go."""

from minikafka.broker.control.lifecycle import (
    EAGER_MS,
    LEAVING_MS,
    Fenced,
    Lifecycle,
    MayStop,
    State,
    Unfenced,
)
from minikafka.protocol.control.messages import HeartbeatAnswer

FENCED = HeartbeatAnswer(0, is_fenced=True)
FREE = HeartbeatAnswer(0, is_caught_up=True, is_fenced=False)
GO = HeartbeatAnswer(0, is_fenced=True, should_shut_down=True)


def running() -> Lifecycle:
    life = Lifecycle(heartbeat_interval_ms=1_000)
    life.on_recovered()
    life.on_heartbeat_answered(FREE)
    return life


def test_until_logs_are_recovered_a_broker_wants_to_be_fenced() -> None:
    life = Lifecycle(heartbeat_interval_ms=1_000)
    assert (life.wants_fence, life.on_heartbeat_answered(FREE)) == (True, ())
    assert life.state is State.STARTING


def test_a_recovered_broker_asks_eagerly_until_it_is_unfenced() -> None:
    life = Lifecycle(heartbeat_interval_ms=1_000)
    life.on_recovered()
    assert (life.wants_fence, life.pause_ms()) == (False, EAGER_MS)
    assert life.on_heartbeat_answered(FENCED) == ()
    assert life.on_heartbeat_answered(FREE) == (Unfenced(),)
    assert (life.state, life.pause_ms()) == (State.RUNNING, 1_000)


def test_a_fenced_broker_goes_on_and_asks_more_often() -> None:
    life = running()
    assert life.on_heartbeat_answered(FENCED) == (Fenced(),)
    assert life.on_heartbeat_answered(FENCED) == ()
    assert life.pause_ms() < 1_000
    assert life.on_heartbeat_answered(FREE) == (Unfenced(),)


def test_a_leaving_broker_stops_when_the_controller_lets_it() -> None:
    life = running()
    life.on_stop_requested()
    assert (life.wants_shutdown, life.pause_ms()) == (True, LEAVING_MS)
    assert life.on_heartbeat_answered(FREE) == ()
    assert life.on_heartbeat_answered(GO) == (MayStop(),)
    assert life.state is State.GONE


def test_a_leaving_broker_does_not_wait_for_ever() -> None:
    life = running()
    life.on_stop_requested()
    assert life.on_out_of_time() == (MayStop(),)
    assert life.on_out_of_time() == ()


def test_leaving_once_is_enough() -> None:
    life = running()
    life.on_stop_requested()
    life.on_stop_requested()
    assert life.on_out_of_time() == (MayStop(),)
    life.on_stop_requested()
    assert life.state is State.GONE


def test_a_broker_says_why_it_is_not_in_service_and_nothing_when_it_is() -> None:
    life = Lifecycle(heartbeat_interval_ms=1_000)
    said = [life.why_not_in_service]
    life.on_recovered()
    said.append(life.why_not_in_service)
    life.on_heartbeat_answered(FREE)
    assert life.why_not_in_service is None
    life.on_heartbeat_answered(FENCED)
    said.append(life.why_not_in_service)
    life.on_stop_requested()
    said.append(life.why_not_in_service)
    for each, word in zip(said, ("registers", "unfence", "fenced", "stops"), strict=True):
        assert each is not None
        assert word in each
