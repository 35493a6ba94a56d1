"""The cluster as a whole: its brokers, the APIs they serve, and the features that it runs."""

import asyncio
from collections.abc import Iterable, Mapping

from ...protocol.api import ApiKey
from ...protocol.errors import ApiError, ErrorCode
from ...protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ...protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ...protocol.messages.metadata import MetadataRequest, MetadataResponse
from ...protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from ...protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
    UpgradeType,
)
from ...protocol.schema import Versions
from ..errors import AdminError, RequestTimedOut, UnsupportedVersion
from ..net.connection import KafkaConnection
from ..net.greeting import SOFTWARE_NAME, SOFTWARE_VERSION
from ..outcomes import error_of, raise_for
from .asking import Asking
from .cluster_types import (
    BrokerDescription,
    ClusterDescription,
    FeatureLevels,
    FeatureMetadata,
    FeatureUpdate,
)


async def describe_cluster(asking: Asking, *, include_fenced: bool = False) -> ClusterDescription:
    """Describe the cluster: its id, its brokers, and the broker that takes admin requests.

    Fenced brokers are included if the broker that is asked supports this. Raise ApiError if the
    broker refuses.
    """

    async def ask(connection: KafkaConnection) -> ClusterDescription:
        if not connection.versions.supports(ApiKey.DESCRIBE_CLUSTER):
            metadata: MetadataResponse = await connection.request(MetadataRequest(topics=[]))
            seen = [BrokerDescription(b.node_id, b.host, b.port, b.rack) for b in metadata.brokers]
            return ClusterDescription(
                metadata.cluster_id or "", metadata.controller_id, tuple(sorted(seen))
            )
        request = DescribeClusterRequest(include_fenced_brokers=include_fenced)
        response: DescribeClusterResponse = await connection.request(request)
        raise_for(response.error_code, response.error_message)
        brokers = [
            BrokerDescription(b.broker_id, b.host, b.port, b.rack, b.is_fenced)
            for b in response.brokers
        ]
        return ClusterDescription(
            response.cluster_id,
            response.controller_id,
            tuple(sorted(brokers, key=lambda broker: broker.node_id)),
        )

    return await asking.one_broker(ask)


async def unregister_broker(asking: Asking, broker_id: int) -> None:
    """Remove the registration of a broker that will not come back; raise ApiError if there is none.

    The broker leaves every ISR, but its replicas stay assigned to it, so move them first by
    `alter_partition_reassignments`. A broker that still runs registers again by itself, as after a
    crash.
    """

    async def ask(connection: KafkaConnection) -> None:
        request = UnregisterBrokerRequest(broker_id=broker_id)
        response: UnregisterBrokerResponse = await asking.request(connection, request)
        raise_for(response.error_code, response.error_message)

    await asking.one_broker(ask)


async def describe_api_versions(
    asking: Asking, broker_ids: Iterable[int]
) -> dict[int, dict[int, Versions] | ApiError]:
    """Return which versions of each API these brokers serve, by broker and API key.

    A broker that did not answer within default_api_timeout_ms has the error REQUEST_TIMED_OUT
    instead of versions.
    """

    async def ask(connection: KafkaConnection) -> dict[int, Versions]:
        response = await _api_versions(asking, connection)
        return {
            one.api_key: Versions(one.min_version, one.max_version) for one in response.api_keys
        }

    async def one(broker_id: int) -> dict[int, Versions] | ApiError:
        try:
            return await asking.one_broker(ask, broker_id)
        except RequestTimedOut as error:
            return ApiError(ErrorCode.REQUEST_TIMED_OUT, str(error))

    wanted = list(broker_ids)
    return dict(zip(wanted, await asyncio.gather(*map(one, wanted)), strict=True))


async def _api_versions(asking: Asking, connection: KafkaConnection) -> ApiVersionsResponse:
    request = ApiVersionsRequest(
        client_software_name=SOFTWARE_NAME, client_software_version=SOFTWARE_VERSION
    )
    response: ApiVersionsResponse = await asking.request(connection, request)
    raise_for(response.error_code)
    return response


async def describe_features(asking: Asking) -> FeatureMetadata:
    """Return the features' levels: those finalised in the cluster, and those a broker supports."""

    async def ask(connection: KafkaConnection) -> FeatureMetadata:
        response = await _api_versions(asking, connection)
        epoch = response.finalized_features_epoch
        return FeatureMetadata(
            {one.name: one.max_version_level for one in response.finalized_features},
            {
                one.name: FeatureLevels(one.min_version, one.max_version)
                for one in response.supported_features
            },
            None if epoch < 0 else epoch,
        )

    return await asking.one_broker(ask)


async def update_features(
    asking: Asking, updates: Mapping[str, FeatureUpdate], *, validate_only: bool = False
) -> None:
    """Finalise levels of features, all or none; raise AdminError if some are refused.

    With `validate_only`, only check whether the levels could be finalised.
    """

    async def ask(connection: KafkaConnection) -> UpdateFeaturesResponse:
        version = connection.versions.of(ApiKey.UPDATE_FEATURES)
        if validate_only and version == 0:
            raise UnsupportedVersion(f"{connection.address}: cannot only validate")
        request = UpdateFeaturesRequest(
            timeout_ms=asking.config.default_api_timeout_ms,
            feature_updates=[
                FeatureUpdateKey(
                    feature=name,
                    max_version_level=update.level,
                    allow_downgrade=update.upgrade_type != UpgradeType.UPGRADE,
                    upgrade_type=update.upgrade_type,
                )
                for name, update in updates.items()
            ],
            validate_only=validate_only,
        )
        response: UpdateFeaturesResponse = await asking.request(connection, request)
        if response.error_code == ErrorCode.NOT_CONTROLLER:
            raise_for(response.error_code, response.error_message)
        return response

    response = await asking.one_broker(ask)
    errors: dict[str, ApiError] = {
        one.feature: refused
        for one in response.results
        if (refused := error_of(one.error_code, one.error_message)) is not None
    }
    if not errors and (refused := error_of(response.error_code, response.error_message)):
        # From version 2 on the answer has one error for all features.
        errors = {", ".join(updates): refused}
    if errors:
        raise AdminError(errors)
