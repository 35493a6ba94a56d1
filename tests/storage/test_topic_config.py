import pytest

from minikafka.runtime.config import settings_of
from minikafka.runtime.errors import ConfigError
from minikafka.storage.topic_config import TopicConfig
from tests.storage.support import topic


def test_defaults_are_kafkas_but_for_safety() -> None:
    config = topic()
    assert config.retention_ms == 604_800_000
    assert config.segment_bytes == 1 << 30
    assert config.max_message_bytes == 1_048_588
    assert config.min_insync_replicas == 2
    assert not config.unclean_leader_election_enable
    assert config.is_deleted
    assert not config.is_compacted
    assert config.cleanup_policy == ("delete",)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"cleanup_policy": "shrink"}, "cleanup.policy=shrink: must be one of delete, compact"),
        ({"cleanup_policy": ""}, "cleanup.policy=: must be delete, compact or both"),
        ({"retention_ms": -2}, "retention.ms=-2: must be at least -1"),
        ({"segment_bytes": 2**31}, "segment.bytes=2147483648: must be at most 2147483647"),
        ({"min_insync_replicas": "two"}, "min.insync.replicas=two: must be an integer"),
        (
            {"min_compaction_lag_ms": 10, "max_compaction_lag_ms": 5},
            "min.compaction.lag.ms=10: must not exceed max.compaction.lag.ms=5",
        ),
    ],
)
def test_what_is_refused(settings: dict[str, object], why: str) -> None:
    with pytest.raises(ConfigError) as refused:
        topic(**settings)
    assert str(refused.value) == why


def test_every_setting_can_change_and_says_what_it_brings() -> None:
    for setting in settings_of(TopicConfig):
        assert setting.dynamic
        assert setting.doc.endswith(".")
