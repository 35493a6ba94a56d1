from minikafka.broker.forward.due_index import Entry
from minikafka.broker.forward.lateness import MOST_NOTED, Lateness
from minikafka.broker.forward.steps import Kind, Plan
from minikafka.protocol.types import TopicIdPartition

T0 = TopicIdPartition(bytes(16), 0)


def plan(plan_id: int, *offsets: int, kind: Kind = Kind.DUE) -> Plan:
    return Plan(plan_id, T0, 7, 0, kind, 0, 5_000, offsets)


def test_of_each_plan_the_record_that_was_due_first_is_measured() -> None:
    lateness = Lateness()
    taken = [Entry(1_000, 4), Entry(1_500, 3), Entry(0, 9), Entry(1_700, 8)]
    lateness.on_planned([plan(1, 4, 3), plan(2, 9), plan(3, 8, kind=Kind.DEAD_LETTER)], taken)
    for plan_id in (1, 2, 3, 1, 77):
        lateness.on_taken(plan_id, 1_250)
    assert lateness.durations is not None
    assert (lateness.durations.count, lateness.durations.sum_us) == (1, 250_000)


def test_what_is_forgotten_or_too_much_is_not_measured_and_early_counts_as_in_time() -> None:
    lateness = Lateness()
    lateness.on_planned([plan(1, 4)], [Entry(1_000, 4)])
    lateness.forget()
    lateness.on_taken(1, 2_000)
    many = range(MOST_NOTED + 5)
    lateness.on_planned([plan(each, each) for each in many], [Entry(1_000, each) for each in many])
    for each in many:
        lateness.on_taken(each, 900)
    assert lateness.durations is not None
    assert (lateness.durations.count, lateness.durations.sum_us) == (MOST_NOTED, 0)
