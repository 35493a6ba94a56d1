"""Settings of the transaction coordinator, most under Kafka's keys."""

from ....runtime.config import INT32_MAX, MiB, config_table, setting


@config_table
class TransactionConfig:
    """The settings of transactions, of their ids and of `__transaction_state`."""

    transaction_max_timeout_ms: int = setting(
        "transaction.max.timeout.ms",
        900_000,
        at_least=1,
        at_most=INT32_MAX,
        doc="The longest transaction.timeout.ms that a producer may ask for. Until its timeout an "
        "abandoned transaction keeps read_committed consumers from going on.",
    )
    transactional_id_expiration_ms: int = setting(
        "transactional.id.expiration.ms",
        604_800_000,
        at_least=1,
        doc="A transactional id unused for so long is forgotten; its producer must begin anew.",
    )
    transactional_ids_max: int = setting(
        "transactional.ids.max",
        1_000_000,
        at_least=1,
        at_most=INT32_MAX,
        doc="The most transactional ids that one broker coordinates, some 1 KB each; one more is "
        "refused until others have expired.",
    )
    abort_check_interval_ms: int = setting(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        10_000,
        at_least=1,
        at_most=INT32_MAX,
        doc="How often the broker looks for overdue transactions; they may last so much longer.",
    )
    expiry_check_interval_ms: int = setting(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        3_600_000,
        at_least=1,
        at_most=INT32_MAX,
        doc="How often the broker looks for transactional ids that have expired.",
    )
    verification_retry_ms: int = setting(
        "add.partitions.to.txn.retry.backoff.ms",
        20,
        at_least=1,
        at_most=INT32_MAX,
        doc="How long a leader waits before it asks the coordinator again whether a partition is "
        "in a transaction, while the transaction before it is still being ended.",
    )
    verification_retry_max_ms: int = setting(
        "add.partitions.to.txn.retry.backoff.max.ms",
        100,
        at_least=0,
        at_most=INT32_MAX,
        doc="How long a request waits for the transaction before it to end, before the producer is "
        "told to try again.",
    )
    producer_id_expiration_ms: int = setting(
        "producer.id.expiration.ms",
        86_400_000,
        at_least=1,
        at_most=INT32_MAX,
        dynamic=True,
        doc="A partition forgets a producer that is idle for so long, unless its transaction is "
        "open there. A batch that the producer repeats afterwards is written twice.",
    )
    topic_partitions: int = setting(
        "transaction.state.log.num.partitions",
        50,
        at_least=1,
        at_most=10_000,
        doc="Partitions of `__transaction_state`; without effect once it exists.",
    )
    topic_replicas: int = setting(
        "transaction.state.log.replication.factor",
        3,
        at_least=1,
        at_most=32_767,
        doc="Replicas of `__transaction_state`; with fewer live brokers no transaction can begin.",
    )
    topic_min_isr: int = setting(
        "transaction.state.log.min.isr",
        2,
        at_least=1,
        at_most=32_767,
        doc="min.insync.replicas of `__transaction_state`: below it no transaction goes on.",
    )
    topic_segment_bytes: int = setting(
        "transaction.state.log.segment.bytes",
        100 * MiB,
        at_least=1024,
        at_most=INT32_MAX,
        doc="Segment size of `__transaction_state`; with smaller segments it is compacted sooner, "
        "and so loaded faster.",
    )
