"""The keys of APIs, and the versions that are advertised of each."""

import pytest
from kio.schema.index import api_key_map

from minikafka.protocol import api, codec
from minikafka.protocol import messages as messages
from minikafka.protocol.api import ApiKey
from minikafka.protocol.schema import Versions, shape_of

ADVERTISED_BY_KAFKA_4_3 = {
    ApiKey.PRODUCE: (0, 13),
    ApiKey.FETCH: (4, 18),
    ApiKey.LIST_OFFSETS: (1, 11),
    ApiKey.METADATA: (0, 13),
    ApiKey.API_VERSIONS: (0, 4),
    ApiKey.CREATE_TOPICS: (2, 7),
    ApiKey.DELETE_TOPICS: (1, 6),
    ApiKey.INIT_PRODUCER_ID: (0, 5),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (2, 4),
    ApiKey.DESCRIBE_CONFIGS: (1, 4),
    ApiKey.CREATE_PARTITIONS: (0, 3),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (0, 1),
    ApiKey.DESCRIBE_CLUSTER: (0, 2),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (0, 0),
}


def test_api_keys_are_those_of_kafka() -> None:
    retired = {4, 5, 6, 7}
    theirs = [key for key in ApiKey if key not in retired and key < api.OWN_API_KEYS]
    names = {key.value: key.name.lower() for key in theirs}
    assert names == dict(api_key_map)


@pytest.mark.parametrize(("key", "versions"), ADVERTISED_BY_KAFKA_4_3.items())
def test_versions_are_advertised_as_kafka_4_3_does(key: ApiKey, versions: tuple[int, int]) -> None:
    assert api.advertised_versions(key) == versions


def test_produce_0_to_2_are_advertised_and_not_served() -> None:
    assert shape_of(codec.request_class(ApiKey.PRODUCE)).versions == Versions(3, 13)


def test_an_api_we_do_not_speak_has_no_versions() -> None:
    assert 0 not in api.advertised_versions(ApiKey.STREAMS_GROUP_HEARTBEAT)
    assert 0 not in api.advertised_versions(12345)
