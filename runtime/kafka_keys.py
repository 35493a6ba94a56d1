"""Kafka's server keys that have no effect here, with the reason. Each causes a warning only.

If a configuration class declares a key, that declaration counts: `check_keys` looks there first.
Keys that Kafka can change at run time can be set here too: they are checked and shown, without
effect.
"""

from .config import Setting

KNOWN_UNUSED: dict[str, str] = {
    key: reason
    for reason, keys in {
        "one event loop serves the process": (
            "background.threads",
            "controlled.shutdown.max.retries",
            "controlled.shutdown.retry.backoff.ms",
            "num.io.threads",
            "num.network.threads",
            "num.recovery.threads.per.data.dir",
            "num.replica.alter.log.dirs.threads",
            "queued.max.requests",
        ),
        "socket buffers are left to the system": (
            "replica.socket.receive.buffer.bytes",
            "socket.receive.buffer.bytes",
            "socket.send.buffer.bytes",
        ),
        "pauses before a retry grow by themselves": ("replica.fetch.backoff.ms",),
        "minikafka runs no JVM": ("auto.include.jmx.reporter",),
        "the program started decides the role": (
            "process.roles",
            "early.start.listeners",
            "broker.id.generation.enable",
        ),
        "there is no ZooKeeper": (
            "zookeeper.connect",
            "zookeeper.connection.timeout.ms",
            "zookeeper.max.in.flight.requests",
            "zookeeper.metadata.migration.enable",
            "zookeeper.session.timeout.ms",
            "zookeeper.set.acl",
            "reserved.broker.max.id",
            "control.plane.listener.name",
        ),
        "the quorum's timing is fixed here": (
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
        "only the newest format is written": (
            "inter.broker.protocol.version",
            "log.message.downconversion.enable",
            "log.message.format.version",
            "offsets.topic.compression.codec",
        ),
        "Kafka's metrics plugins are Java classes": (
            "client.quota.callback.class",
            "metric.reporters",
            "metrics.num.samples",
            "metrics.recording.level",
            "metrics.sample.window.ms",
            "kafka.metrics.polling.interval.secs",
            "kafka.metrics.reporters",
        ),
        "indexes are small arrays in memory": (
            "log.flush.offset.checkpoint.interval.ms",
            "log.flush.start.offset.checkpoint.interval.ms",
            "producer.id.quota.manager.cache.size",
        ),
        "one worker process compacts, in steps of its own size": (
            "log.cleaner.io.buffer.load.factor",
            "log.cleaner.io.buffer.size",
            "log.cleaner.threads",
        ),
        "policies are Java classes": (
            "alter.config.policy.class.name",
            "create.topic.policy.class.name",
        ),
        "default quotas are set in the metadata": (
            "quota.consumer.default",
            "quota.producer.default",
        ),
        "the buckets of quotas have fixed sizes": (
            "alter.log.dirs.replication.quota.window.num",
            "alter.log.dirs.replication.quota.window.size.seconds",
            "controller.quota.window.num",
            "controller.quota.window.size.seconds",
            "quota.window.num",
            "quota.window.size.seconds",
            "replication.quota.window.num",
            "replication.quota.window.size.seconds",
        ),
        "the coordinator's writes need no tuning": (
            "group.coordinator.append.linger.ms",
            "group.coordinator.new.enable",
            "group.coordinator.rebalance.protocols",
            "group.coordinator.threads",
            "offsets.load.buffer.size",
            "offsets.commit.required.acks",
            "transaction.state.log.load.buffer.size",
        ),
        "what a transaction adds is always verified": (
            "transaction.partition.verification.enable",
        ),
        "there are no share groups": (
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
        "there is no tiered storage": (
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
        "ssl.enabled.protocols has the versions of TLS": ("ssl.protocol",),
        "brokers do not log in at each other by OAUTHBEARER": (
            "sasl.login.connect.timeout.ms",
            "sasl.login.read.timeout.ms",
            "sasl.login.refresh.buffer.seconds",
            "sasl.login.refresh.min.period.seconds",
            "sasl.login.refresh.window.factor",
            "sasl.login.refresh.window.jitter",
            "sasl.login.retry.backoff.max.ms",
            "sasl.login.retry.backoff.ms",
            "sasl.oauthbearer.client.credentials.client.id",
            "sasl.oauthbearer.client.credentials.client.secret",
            "sasl.oauthbearer.header.urlencode",
            "sasl.oauthbearer.jwt.retriever.class",
            "sasl.oauthbearer.scope",
            "sasl.oauthbearer.token.endpoint.url",
        ),
        "it configures Java's security classes": (
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
            "sasl.oauthbearer.jwt.validator.class",
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
    for key, (kind, at_least) in {
        "background.threads": (int, 1),
        "num.io.threads": (int, 1),
        "num.network.threads": (int, 1),
        "num.recovery.threads.per.data.dir": (int, 1),
        "log.cleaner.io.buffer.size": (int, 0),
        "log.cleaner.threads": (int, 0),
        "log.local.retention.bytes": (int, -2),
        "log.local.retention.ms": (int, -2),
        "log.cleaner.io.buffer.load.factor": (float, 0),
        "transaction.partition.verification.enable": (bool, None),
    }.items()
}
"""The keys without effect that Kafka can change at run time, with the bounds that Kafka checks."""
