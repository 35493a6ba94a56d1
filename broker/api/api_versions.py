"""ApiVersions: the APIs of the dispatch table with their versions, and the cluster's features.

It is the first request of every client. Its response header always has version 0. A request in an
unsupported version gets a response in version 0, with error 35 and the versions of ApiVersions
alone (KIP-511).
"""

import re
from collections.abc import Iterable

from ...protocol.api import ApiKey, advertised_versions
from ...protocol.control.records import REPLICA_PROOF
from ...protocol.errors import ErrorCode
from ...protocol.kafka_features import NOT_HERE, told_level, told_range
from ...protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from ..edge import Edge
from ..net.answer import Call

SOFTWARE_FROM = 3
LEVEL_ZERO_FROM = 4
"""The first version whose clients accept a feature with 0 as its lowest level."""
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


class ApiVersions:
    """The handler of ApiVersions for one dispatch table."""

    def __init__(self, keys: Iterable[int]) -> None:
        self._spoken = [_spoken(key) for key in sorted(keys)]

    def handle(self, call: Call, request: ApiVersionsRequest) -> ApiVersionsResponse:
        """Answer with the supported API versions and features."""
        if call.version >= SOFTWARE_FROM:
            if not _is_software_named(request):
                return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST, api_keys=[])
            named = request.client_software_name, request.client_software_version
            call.connection.session.software = named
        return self._response(call.edge, call.version)

    def refuse(self) -> ApiVersionsResponse:
        """Answer a request in an unsupported version of ApiVersions."""
        return ApiVersionsResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[_spoken(ApiKey.API_VERSIONS)]
        )

    def _response(self, edge: Edge, version: int) -> ApiVersionsResponse:
        image = edge.image
        this = image.brokers.get(edge.config.node_id)
        ours = {} if this is None else this.features
        # Nobody sets a level of REPLICA_PROOF, so no tool is told of it.
        supported = {
            name: told_range(name, levels) for name, levels in ours.items() if name != REPLICA_PROOF
        } | NOT_HERE
        return ApiVersionsResponse(
            error_code=ErrorCode.NONE,
            api_keys=self._spoken,
            supported_features=[
                SupportedFeatureKey(
                    name=name, min_version=levels.lowest, max_version=levels.highest
                )
                for name, levels in supported.items()
                if levels.lowest > 0 or version >= LEVEL_ZERO_FROM
            ],
            finalized_features_epoch=image.offset,
            finalized_features=[
                FinalizedFeatureKey(name=name, min_version_level=level, max_version_level=level)
                for name, ours in image.features.items()
                for level in (told_level(name, ours),)
            ],
        )


def _spoken(key: int) -> ApiVersion:
    versions = advertised_versions(ApiKey(key))
    return ApiVersion(api_key=key, min_version=versions.first, max_version=versions.last)


def _is_software_named(request: ApiVersionsRequest) -> bool:
    """True if the name and version of the client's software are safe to write into logs."""
    return all(
        _SOFTWARE.fullmatch(text)
        for text in (request.client_software_name, request.client_software_version)
    )
