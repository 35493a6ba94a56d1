"""What the record of the audit says of each kind of change, and when it is written at all."""

from collections.abc import Sequence

import pytest

from minikafka.controller.metadata import auditing
from minikafka.controller.metadata.auditing import MASKED, Asked, audited
from minikafka.controller.metadata.decision import Cluster, Decision, Defaults
from minikafka.protocol.audit import AUDIT_ENABLE, AUDIT_REQUIRED
from minikafka.protocol.control import records as r
from minikafka.protocol.control.image import MetadataImage
from minikafka.protocol.errors import ApiError, ErrorCode
from minikafka.protocol.types import AUDIT_TOPIC

T, U = b"t" * 16, b"u" * 16
ASKED = Asked("AnyAction", "User:a", "client", "10.0.0.1", b"key", 5)
ACL = r.AccessControlEntryRecord(b"a" * 16, 2, "t", 3, "User:b", "*", 3, 3)


def cluster_of(*records: r.MetadataRecord, **switches: bool) -> Cluster:
    image = MetadataImage()
    for offset, record in enumerate(
        [
            r.TopicRecord("t", T),
            r.PartitionRecord(T, 0, (1, 2), (1, 2), 1),
            *records,
        ]
    ):
        image.apply(record, offset)
    return Cluster(image, Defaults(switches={AUDIT_ENABLE: True, AUDIT_REQUIRED: False} | switches))


def record_of(
    records: Sequence[r.MetadataRecord], cluster: Cluster | None = None, asked: Asked = ASKED
) -> r.AuditedRecord:
    decided = audited(cluster or cluster_of(), asked, Decision("answer", records))
    assert (decided.answer, list(decided.records[:-1])) == ("answer", list(records))
    last = decided.records[-1]
    assert isinstance(last, r.AuditedRecord)
    return last


def told(*records: r.MetadataRecord, cluster: Cluster | None = None) -> list[tuple[object, ...]]:
    return [
        (each.kind, each.name, each.aspect, each.before, each.after)
        for each in record_of(records, cluster).changes
    ]


def test_it_says_who_asked_and_has_the_next_number() -> None:
    cluster = cluster_of()
    first = record_of([r.RemoveTopicRecord(T)], cluster)
    assert (first.number, first.action, first.principal) == (1, "AnyAction", "User:a")
    assert (first.client_id, first.host, first.request_id) == ("client", "10.0.0.1", b"key")
    assert (first.at_ms, first.offset, first.left_out) == (5, -1, 0)
    cluster.image.apply(first, 7)
    assert record_of([r.RemoveTopicRecord(T)], cluster).number == 2


def test_topics_and_partitions() -> None:
    created = [r.TopicRecord("u", U), *(r.PartitionRecord(U, n, (1,), (1,), 1) for n in (0, 1))]
    assert told(*created) == [("topic", "u", "partitions", None, "2")]
    more = [r.PartitionRecord(T, n, (1,), (1,), 1) for n in (1, 2)]
    assert told(*more) == [("topic", "t", "partitions", "1", "3")]
    assert told(r.RemoveTopicRecord(T)) == [("topic", "t", "partitions", "1", None)]
    moved = r.PartitionChangeRecord(T, 0, adding=(3,), replicas=(1, 2, 3), leader=1)
    assert told(moved) == [
        ("partition", "t-0", "replicas", "1,2", "1,2,3"),
        ("partition", "t-0", "adding", "", "3"),
    ]
    unclean = r.PartitionChangeRecord(T, 0, leader=2, recovering=True)
    assert told(unclean) == [("partition", "t-0", "leader", "1", "2, elected uncleanly")]


def test_settings_of_which_secret_ones_are_masked() -> None:
    cluster = cluster_of(
        r.ConfigRecord(r.TOPIC, "t", "retention.ms", "1"),
        r.ConfigRecord(r.BROKER, "", "ssl.key.password", "tell nobody"),
    )
    assert told(
        r.ConfigRecord(r.TOPIC, "t", "retention.ms", None),
        r.ConfigRecord(r.BROKER, "", "ssl.key.password", "nobody"),
        r.ConfigRecord(r.BROKER, "1", "sasl.jaas.config", "nobody"),
        r.ConfigRecord(r.CLIENT_METRICS, "s", "interval.ms", "5"),
        cluster=cluster,
    ) == [
        ("topic", "t", "retention.ms", "1", None),
        ("broker", "<default>", "ssl.key.password", MASKED, MASKED),
        ("broker", "1", "sasl.jaas.config", None, MASKED),
        ("client-metrics", "s", "interval.ms", None, "5"),
    ]


def test_rights_users_quotas_and_tokens() -> None:
    scram = r.ScramCredentialRecord("bob", 1, b"salt", b"stored", b"server", 4096)
    token = r.DelegationTokenRecord("id", "User:a", "User:b", (), 1, 5, 9)
    quota = r.ClientQuotaRecord({"user": None}, "producer_byte_rate", 5.0)
    text = (
        "StandardAcl[resourceType=TOPIC, resourceName=t, patternType=LITERAL, principal=User:b,"
        " host=*, operation=READ, permissionType=ALLOW]"
    )
    before = cluster_of(ACL, scram, token, quota)
    acl, token_text = ACL.id.hex(), "id"
    assert told(ACL, scram, token, quota, r.ScramSecretRecord(b"secret")) == [
        ("acl", acl, "entry", None, text),
        ("user", "bob", "SCRAM-SHA-256", None, MASKED),
        ("token", token_text, "owner", None, "User:a"),
        ("token", token_text, "expires_ms", None, "5"),
        ("quota", "user=<default>", "producer_byte_rate", None, "5.0"),
    ]
    assert told(
        r.RemoveAccessControlEntryRecord(ACL.id),
        r.RemoveScramCredentialRecord("bob", 1),
        r.RemoveDelegationTokenRecord("id"),
        r.ClientQuotaRecord({"user": None}, "producer_byte_rate", None),
        cluster=before,
    ) == [
        ("acl", acl, "entry", text, None),
        ("user", "bob", "SCRAM-SHA-256", MASKED, None),
        ("token", token_text, "owner", "User:a", None),
        ("quota", "user=<default>", "producer_byte_rate", "5.0", None),
    ]


def test_features_and_brokers() -> None:
    assert told(r.FeatureRecord("f", 2), r.UnregisterBrokerRecord(3, 70)) == [
        ("feature", "f", "level", "0", "2"),
        ("broker", "3", "registration", "70", None),
    ]


def test_nothing_is_written_while_it_is_off_or_nothing_changes() -> None:
    off = cluster_of(**{AUDIT_ENABLE: False})
    decision = Decision("answer", [r.RemoveTopicRecord(T)])
    assert audited(off, ASKED, decision) is decision
    unchanged: Decision[str] = Decision("answer")
    assert audited(cluster_of(), ASKED, unchanged) is unchanged


def test_turning_it_on_and_off_is_audited() -> None:
    on, off = (r.ConfigRecord(r.BROKER, "", AUDIT_ENABLE, value) for value in ("true", "false"))
    elsewhere = r.ConfigRecord(r.BROKER, "1", AUDIT_ENABLE, "true")
    silent = cluster_of(**{AUDIT_ENABLE: False})
    assert record_of([on], silent).number == 1
    assert audited(silent, ASKED, Decision("", [elsewhere])).records == [elsewhere]
    assert record_of([off], cluster_of(on, **{AUDIT_ENABLE: False})).number == 1
    assert audited(cluster_of(off), ASKED, Decision("", [off])).records == [off]


def test_turning_it_on_by_deleting_what_turned_it_off_is_audited() -> None:
    off = r.ConfigRecord(r.BROKER, "", AUDIT_ENABLE, "false")
    unset = r.ConfigRecord(r.BROKER, "", AUDIT_ENABLE, None)
    assert record_of([unset], cluster_of(off)).number == 1
    silent = cluster_of(off, **{AUDIT_ENABLE: False})
    assert audited(silent, ASKED, Decision("", [unset])).records == [unset]


def test_long_requests_and_long_texts_are_told_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auditing, "CHANGES_MAX", 2)
    many = [r.ConfigRecord(r.BROKER, "1", f"k{number}", "v") for number in range(5)]
    record = record_of(many)
    assert ([each.aspect for each in record.changes], record.left_out) == (["k0", "k1"], 3)
    monkeypatch.setattr(auditing, "BYTES_MAX", 2_000)
    large = [r.ConfigRecord(r.BROKER, "1", key, "v" * 9_000) for key in ("a", "b")]
    record = record_of(large)
    assert [len(each.after or "") for each in record.changes] == [1_000]
    assert record.left_out == 1


def lacking(isr: tuple[int, ...], leader: int) -> list[r.MetadataRecord]:
    return [
        r.TopicRecord(AUDIT_TOPIC, U),
        r.PartitionRecord(U, 0, (1, 2, 3), isr, leader),
        r.ConfigRecord(r.TOPIC, AUDIT_TOPIC, "min.insync.replicas", "2"),
    ]


def test_a_required_audit_refuses_what_it_could_not_tell() -> None:
    change = Decision("", [r.RemoveTopicRecord(T)])
    for isr, leader in (((1,), 1), ((1, 2), -1)):
        cluster = cluster_of(*lacking(isr, leader), **{AUDIT_REQUIRED: True})
        with pytest.raises(ApiError) as refused:
            audited(cluster, ASKED, change)
        assert refused.value.code is ErrorCode.POLICY_VIOLATION
        own = Asked("CreateTopics", "", "", "", b"", 5)
        assert record_of(change.records, cluster, own).number == 1
        mending: list[r.MetadataRecord] = [
            r.ConfigRecord(r.TOPIC, AUDIT_TOPIC, "min.insync.replicas", "1"),
            r.ConfigRecord(r.BROKER, "", AUDIT_REQUIRED, "false"),
            r.PartitionChangeRecord(U, 0, leader=2),
        ]
        assert record_of(mending, cluster).number == 1
        with pytest.raises(ApiError):
            audited(cluster, ASKED, Decision("", [*mending, *change.records]))
        assert audited(cluster, ASKED, Decision("")).records == ()
    whole = cluster_of(*lacking((1, 2), 1), **{AUDIT_REQUIRED: True})
    assert record_of(change.records, whole).number == 1


def test_a_required_audit_begins_with_the_request_that_makes_its_topic() -> None:
    cluster = cluster_of(**{AUDIT_REQUIRED: True})
    first = record_of([r.RemoveTopicRecord(T)], cluster)
    cluster.image.apply(first, 9)
    with pytest.raises(ApiError, match="does not exist yet"):
        audited(cluster, ASKED, Decision("", [r.RemoveTopicRecord(T)]))
