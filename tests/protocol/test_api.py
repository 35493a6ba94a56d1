"""The keys of APIs, and the versions that are advertised of each."""

from kio.schema.index import api_key_map

from minikafka.protocol import api, codec
from minikafka.protocol import messages as messages
from minikafka.protocol.api import ApiKey
from minikafka.protocol.schema import Versions, shape_of


def test_api_keys_are_those_of_kafka() -> None:
    retired = {4, 5, 6, 7}
    theirs = [key for key in ApiKey if key not in retired and key < api.OWN_API_KEYS]
    names = {key.value: key.name.lower() for key in theirs}
    assert names == dict(api_key_map)


def test_produce_0_to_2_are_advertised_and_not_served() -> None:
    assert shape_of(codec.request_class(ApiKey.PRODUCE)).versions == Versions(3, 13)


def test_an_api_we_do_not_speak_has_no_versions() -> None:
    assert 0 not in api.advertised_versions(ApiKey.STREAMS_GROUP_HEARTBEAT)
    assert 0 not in api.advertised_versions(12345)
