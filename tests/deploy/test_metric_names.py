"""The names that people's dashboards and alerts use: each is served, or has no meaning here.

They are those of Kafka's JMX exporter rules, of Strimzi's dashboards (Kafka, KRaft, Kafka Exporter)
and rules, and of kafka_exporter. What is served is read off docs/metrics.md, which another test
compares with running daemons.
"""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"


def each(prefix: str, names: str, *labels: str) -> dict[str, tuple[str, ...]]:
    return {f"{prefix}{name}": labels for name in names.split()}


SERVED: dict[str, tuple[str, ...]] = {
    **each(
        "kafka_server_replicamanager_",
        "underreplicatedpartitions underminisrpartitioncount atminisrpartitioncount"
        " offlinereplicacount partitioncount leadercount reassigningpartitions produceridcount"
        " isrshrinks_total isrexpands_total failedisrupdates_total",
    ),
    **each(
        "kafka_server_brokertopicmetrics_",
        "messagesin_total bytesin_total bytesout_total bytesrejected_total"
        " replicationbytesin_total replicationbytesout_total totalproducerequests_total"
        " totalfetchrequests_total failedproducerequests_total failedfetchrequests_total",
        "topic",
    ),
    **each("kafka_network_requestmetrics_", "requests_total", "request", "version"),
    **each("kafka_network_requestmetrics_", "errors_total", "request", "error"),
    **each("kafka_network_requestmetrics_", "totaltimems remotetimems requestbytes", "request"),
    **each("kafka_server_delayedoperationpurgatory_", "purgatorysize", "delayedOperation"),
    **each("kafka_server_replicafetchermanager_", "maxlag", "clientId"),
    **each("kafka_server_fetcherlagmetrics_", "consumerlag", "topic", "partition"),
    **each("kafka_server_socket_server_metrics_", "connection_count", "listener"),
    **each("kafka_log_log_", "size numlogsegments logstartoffset logendoffset", "topic"),
    **each("kafka_log_logmanager_", "offlinelogdirectorycount"),
    **each("kafka_log_logflushstats_", "logflushrateandtimems"),
    **each("kafka_cluster_partition_", "underminisr atminisr laststableoffsetlag", "topic"),
    **each(
        "kafka_coordinator_group_groupmetadatamanager_",
        "numgroups numgroupspreparingrebalance numgroupscompletingrebalance numgroupsstable"
        " numgroupsempty numgroupsdead numoffsets",
    ),
    **each(
        "kafka_topic_partition_",
        "current_offset oldest_offset in_sync_replica leader leader_is_preferred replicas"
        " under_replicated_partition",
        "topic",
        "partition",
    ),
    **each("kafka_", "brokers"),
    **each("kafka_", "broker_info", "id", "address"),
    **each("kafka_", "topic_partitions", "topic"),
    **each("kafka_consumergroup_", "members", "consumergroup"),
    **each("kafka_consumergroup_", "current_offset_sum lag_sum", "consumergroup", "topic"),
    **each("kafka_consumergroup_", "current_offset lag", "consumergroup", "topic", "partition"),
    **each("minikafka_consumergroup_lag_", "records bytes seconds", "consumergroup", "partition"),
    **each(
        "kafka_controller_kafkacontroller_",
        "activecontrollercount offlinepartitionscount preferredreplicaimbalancecount"
        " globaltopiccount globalpartitioncount fencedbrokercount activebrokercount",
    ),
    **each(
        "kafka_controller_controllerstats_",
        "uncleanleaderelections_total leaderelectionrateandtimems",
    ),
    **each(
        "kafka_server_raft_metrics_",
        "current_leader current_vote current_epoch high_watermark log_end_offset"
        " commit_latency_avg",
    ),
    **each("kafka_server_raft_metrics_", "current_state_info", "state", "current_state"),
    **each(
        "kafka_server_raftmetrics_",
        "current_leader current_vote current_epoch high_watermark log_end_offset"
        " commit_latency_avg",
    ),
    **each("kafka_server_raftmetrics_", "current_state", "current_state"),
    **each("process_", "open_fds cpu_seconds_total resident_memory_bytes"),
}

ONE_LOOP = "one loop does everything: minikafka_event_loop_delay_ms says how busy it is"
NO_QUEUES = "a request is handled as its bytes arrive, without queues between threads"
OF_THE_HOST = "it is about the host or the container, whose own exporter tells it"
NO_JVM = "there is no JVM: process_* tells of the process"
CONTROL = "controllers speak the control protocol: there is no metadata topic to be fetched"

WITHOUT_MEANING = {
    "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent": ONE_LOOP,
    "kafka_network_socketserver_networkprocessoravgidle_percent": ONE_LOOP,
    "kafka_network_requestmetrics_requestqueuetimems": NO_QUEUES,
    "kafka_network_requestmetrics_responsequeuetimems": NO_QUEUES,
    "kafka_network_requestmetrics_localtimems": "what is not remote is local: total without remote",
    "kafka_network_requestmetrics_responsesendtimems": "the system takes an answer at once, or the"
    " peer is slow: minikafka_memory_bytes says what it leaves unread",
    "kafka_server_brokertopicmetrics_producemessageconversions_total": "no format is converted",
    "kafka_server_brokertopicmetrics_reassignmentbytesin_total": "copies are made by the same"
    " fetches as all replication: replicationbytesin_total",
    "kafka_controller_kafkacontroller_topicstodeletecount": "a topic is deleted by one record, and"
    " none waits for it",
    "kafka_server_quota_byte_rate": "a quota is a bucket of tokens, and measures no rate",
    "kafka_server_quota_throttle_time": "each kind of quota has its own: produce_throttle_time",
    "kafka_server_kafkaserver_linux_disk_read_bytes": OF_THE_HOST,
    "kafka_server_kafkaserver_linux_disk_write_bytes": OF_THE_HOST,
    "kubelet_volume_stats_available_bytes": OF_THE_HOST,
    "kubelet_volume_stats_capacity_bytes": OF_THE_HOST,
    "container_memory_working_set_bytes": OF_THE_HOST,
    "container_memory_usage_bytes": OF_THE_HOST,
    "container_cpu_usage_seconds_total": OF_THE_HOST,
    "container_last_seen": OF_THE_HOST,
    "jvm_memory_bytes_used": NO_JVM,
    "jvm_memory_used_bytes": NO_JVM,
    "jvm_gc_collection_seconds_sum": NO_JVM,
    "jvm_gc_collection_seconds_count": NO_JVM,
    "jvm_threads_current": NO_JVM,
    **{
        f"kafka_server_{prefix}_{way}_records_rate": CONTROL
        for prefix in ("raftmetrics", "raft_metrics")
        for way in ("fetch", "append")
    },
    **{
        f"kafka_server_{channel}": CONTROL
        for way in ("incoming_byte", "outgoing_byte", "request", "response")
        for channel in (f"raftchannelmetrics_{way}_total", f"raft_channel_metrics_{way}")
    },
    "kafka_exporter_build_info": "nothing is exported for a cluster: minikafka_build_info",
    "kafka_consumergroup_lagzookeeper": "no offset is in ZooKeeper",
}


def served() -> dict[str, list[str]]:
    """Names and labels as the page has them."""
    rows = re.findall(r"^\| `(\w+)` \| \w+ \| ([^|]*)\|", PAGE.read_text(), re.MULTILINE)
    return {name: re.findall(r"`(\w+)`", labels) for name, labels in rows}


def test_every_name_of_the_list_is_served_with_its_labels() -> None:
    known = served()
    assert [name for name in SERVED if name not in known] == []
    for name, labels in SERVED.items():
        assert set(labels) <= set(known[name]), name


def test_what_has_no_meaning_here_is_not_served() -> None:
    assert sorted(set(WITHOUT_MEANING) & set(served())) == []
