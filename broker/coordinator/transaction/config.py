"""Settings of the transaction coordinator, under Kafka's keys. Values only."""

from ....runtime.config import INT32_MAX, MiB, config_table, setting


@config_table
class TransactionConfig:
    """The limits of transactions in time, and how long their ids are remembered."""

    transaction_max_timeout_ms: int = setting(
        "transaction.max.timeout.ms",
        900_000,
        at_least=1,
        at_most=INT32_MAX,
        doc="A producer that asks for a longer transaction.timeout.ms is refused; until it is over "
        "an abandoned transaction keeps read_committed consumers from going on.",
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
        doc="Transactional ids that one broker coordinates, some 1 KB each; one more is refused "
        "until others have expired.",
    )
    abort_check_interval_ms: int = setting(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        10_000,
        at_least=1,
        at_most=INT32_MAX,
        doc="How often overdue transactions are looked for: by so much more they may last.",
    )
    expiry_check_interval_ms: int = setting(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        3_600_000,
        at_least=1,
        at_most=INT32_MAX,
        doc="How often transactional ids to forget are looked for.",
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
        doc="For how long it does so before the producer is told to try again.",
    )
    producer_id_expiration_ms: int = setting(
        "producer.id.expiration.ms",
        86_400_000,
        at_least=1,
        at_most=INT32_MAX,
        dynamic=True,
        doc="A producer idle for so long is forgotten in a partition, unless its transaction is "
        "open there: what it repeats afterwards is written again.",
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
        doc="Segments of `__transaction_state`; smaller ones are compacted, and loaded, sooner.",
    )
