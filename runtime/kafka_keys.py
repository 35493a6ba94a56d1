"""Kafka's server keys that mean nothing here, with the reason. A warning each, never an error.

A key leaves this table when a configuration class declares it: `check_keys` looks there first.
Those that Kafka changes at run time can be set so here too, checked and shown, to the same effect.
"""

from .config import Setting

_JVM = "minikafka runs no JVM"
_THREADS = "one event loop serves the process"
_QUORUM = "the quorum's timing is fixed here"
_FORMAT = "only the newest format is written"
_METRICS = "Kafka's metrics plugins are Java classes"
_REMOTE = "there is no tiered storage"
_ZOOKEEPER = "there is no ZooKeeper"
_CLEANER = "one worker process compacts, in steps of its own size"
_SHARE = "there are no share groups"
_SECURITY = "it configures Java's security classes"
_ROLES = "the program started decides the role"
_QUOTA = "quotas are not enforced"
_COORDINATOR = "the coordinator's writes need no tuning"
_BUFFERS = "socket buffers are left to the system"
_RETRIES = "pauses before a retry grow by themselves"
_INDEX = "indexes are small arrays in memory"
_DIRECTORIES = "no replica moves between the directories of one broker"
_VERIFICATION = "what a transaction adds is always verified"

KNOWN_UNUSED: dict[str, str] = {
    key: reason
    for reason, keys in {
        _THREADS: (
            "background.threads",
            "controlled.shutdown.max.retries",
            "controlled.shutdown.retry.backoff.ms",
            "num.io.threads",
            "num.network.threads",
            "num.recovery.threads.per.data.dir",
            "num.replica.alter.log.dirs.threads",
            "queued.max.requests",
            "connection.failed.authentication.delay.ms",
        ),
        _BUFFERS: (
            "replica.socket.receive.buffer.bytes",
            "socket.receive.buffer.bytes",
            "socket.send.buffer.bytes",
        ),
        _RETRIES: ("replica.fetch.backoff.ms",),
        _JVM: ("auto.include.jmx.reporter",),
        _ROLES: ("process.roles", "early.start.listeners", "broker.id.generation.enable"),
        _ZOOKEEPER: (
            "zookeeper.connect",
            "zookeeper.connection.timeout.ms",
            "zookeeper.max.in.flight.requests",
            "zookeeper.metadata.migration.enable",
            "zookeeper.session.timeout.ms",
            "zookeeper.set.acl",
            "reserved.broker.max.id",
            "control.plane.listener.name",
        ),
        _QUORUM: (
            "controller.performance.always.log.threshold.ms",
            "controller.performance.sample.period.ms",
            "controller.quorum.append.linger.ms",
            "controller.quorum.auto.join.enable",
            "controller.quorum.election.backoff.max.ms",
            "controller.quorum.election.timeout.ms",
            "controller.quorum.fetch.snapshot.max.bytes",
            "controller.quorum.fetch.timeout.ms",
            "controller.quorum.request.timeout.ms",
            "controller.quorum.retry.backoff.ms",
            "metadata.log.segment.min.bytes",
            "metadata.max.idle.interval.ms",
            "server.max.startup.time.ms",
            "initial.broker.registration.timeout.ms",
        ),
        _FORMAT: (
            "inter.broker.protocol.version",
            "log.message.downconversion.enable",
            "log.message.format.version",
            "offsets.topic.compression.codec",
        ),
        _METRICS: (
            "client.quota.callback.class",
            "metric.reporters",
            "metrics.num.samples",
            "metrics.recording.level",
            "metrics.sample.window.ms",
            "kafka.metrics.polling.interval.secs",
            "kafka.metrics.reporters",
            "telemetry.max.bytes",
        ),
        _INDEX: (
            "log.flush.offset.checkpoint.interval.ms",
            "log.flush.start.offset.checkpoint.interval.ms",
            "producer.id.quota.manager.cache.size",
        ),
        _CLEANER: (
            "log.cleaner.io.buffer.load.factor",
            "log.cleaner.io.buffer.size",
            "log.cleaner.threads",
        ),
        _QUOTA: (
            "alter.config.policy.class.name",
            "alter.log.dirs.replication.quota.window.num",
            "alter.log.dirs.replication.quota.window.size.seconds",
            "controller.quota.window.num",
            "controller.quota.window.size.seconds",
            "create.topic.policy.class.name",
            "quota.consumer.default",
            "quota.producer.default",
            "quota.window.num",
            "quota.window.size.seconds",
            "replication.quota.window.num",
            "replication.quota.window.size.seconds",
        ),
        _COORDINATOR: (
            "group.coordinator.append.linger.ms",
            "group.coordinator.new.enable",
            "group.coordinator.rebalance.protocols",
            "group.coordinator.threads",
            "offsets.load.buffer.size",
            "offsets.commit.required.acks",
            "transaction.state.log.load.buffer.size",
        ),
        _VERIFICATION: ("transaction.partition.verification.enable",),
        _DIRECTORIES: ("replica.alter.log.dirs.io.max.bytes.per.second",),
        _SHARE: (
            "group.share.assignors",
            "group.share.enable",
            "group.share.heartbeat.interval.ms",
            "group.share.max.size",
            "group.share.session.timeout.ms",
            "share.coordinator.append.linger.ms",
            "share.coordinator.state.topic.num.partitions",
            "share.coordinator.state.topic.replication.factor",
            "share.coordinator.threads",
        ),
        _REMOTE: (
            "remote.log.manager.copier.thread.pool.size",
            "remote.log.manager.task.interval.ms",
            "remote.log.metadata.manager.class.name",
            "remote.log.metadata.manager.class.path",
            "remote.log.metadata.manager.listener.name",
            "remote.log.storage.manager.class.name",
            "remote.log.storage.manager.class.path",
            "remote.log.storage.system.enable",
            "log.local.retention.bytes",
            "log.local.retention.ms",
        ),
        _SECURITY: (
            "connections.max.reauth.ms",
            "delegation.token.expiry.check.interval.ms",
            "delegation.token.expiry.time.ms",
            "delegation.token.max.lifetime.ms",
            "delegation.token.secret.key",
            "principal.builder.class",
            "sasl.client.callback.handler.class",
            "sasl.kerberos.kinit.cmd",
            "sasl.kerberos.min.time.before.relogin",
            "sasl.kerberos.principal.to.local.rules",
            "sasl.kerberos.service.name",
            "sasl.kerberos.ticket.renew.jitter",
            "sasl.kerberos.ticket.renew.window.factor",
            "sasl.login.callback.handler.class",
            "sasl.login.class",
            "sasl.server.callback.handler.class",
            "security.providers",
            "ssl.engine.factory.class",
            "ssl.keymanager.algorithm",
            "ssl.provider",
            "ssl.secure.random.implementation",
            "ssl.trustmanager.algorithm",
        ),
    }.items()
    for key in keys
}

DYNAMIC_UNUSED: dict[str, Setting] = {
    key: Setting(
        key=key,
        field="",
        type=kind,
        optional=False,
        default=None,
        at_least=at_least,
        dynamic=True,
        doc=f"No effect: {KNOWN_UNUSED[key]}.",
    )
    for kind, at_least, keys in (
        (
            int,
            1,
            (
                "background.threads",
                "num.io.threads",
                "num.network.threads",
                "num.recovery.threads.per.data.dir",
            ),
        ),
        (
            int,
            0,
            (
                "log.cleaner.io.buffer.size",
                "log.cleaner.threads",
                "replica.alter.log.dirs.io.max.bytes.per.second",
            ),
        ),
        (int, -2, ("log.local.retention.bytes", "log.local.retention.ms")),
        (float, 0, ("log.cleaner.io.buffer.load.factor",)),
        (bool, None, ("transaction.partition.verification.enable",)),
    )
    for key in keys
}
"""The unused keys that Kafka changes while a broker runs, with the bounds that Kafka checks."""
