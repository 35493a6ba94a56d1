"""ApiVersions, the first request on a connection: ask which APIs and versions the broker serves.

The header of this response never has tagged fields. If the broker does not know the request's
version, it answers UNSUPPORTED_VERSION in version 0 (KIP-511).
"""

from ..api import ApiKey
from ..schema import Bool, Int16, Int32, Int64, String, field, nested, request, response


@request(ApiKey.API_VERSIONS, versions="0-4", flexible="3+")
class ApiVersionsRequest:
    """Ask which versions of each API the broker serves."""

    client_software_name: String = field("3+", default="")
    client_software_version: String = field("3+", default="")


@nested
class ApiVersion:
    """The lowest and the highest version of one API."""

    api_key: Int16
    min_version: Int16
    max_version: Int16


@nested
class SupportedFeatureKey:
    """The levels of a feature that this broker supports."""

    name: String
    min_version: Int16
    """The lowest level. It may be 0 only from version 4 on, as older clients refuse 0
    (KAFKA-17011)."""
    max_version: Int16


@nested
class FinalizedFeatureKey:
    """The finalised level of a feature: the one in force in the cluster."""

    name: String
    max_version_level: Int16
    min_version_level: Int16


@response(ApiKey.API_VERSIONS)
class ApiVersionsResponse:
    """Every API served on this listener, with its versions."""

    error_code: Int16 = field(default=0)
    api_keys: list[ApiVersion]
    throttle_time_ms: Int32 = field("1+", default=0)
    supported_features: list[SupportedFeatureKey] = field("3+", default=[], tag=0)
    finalized_features_epoch: Int64 = field("3+", default=-1, tag=1)
    """The epoch of the finalised features, which each change raises; -1 if it is unknown."""
    finalized_features: list[FinalizedFeatureKey] = field("3+", default=[], tag=2)
    zk_migration_ready: Bool = field("3+", default=False, tag=3)
    """A field left over from the migration away from ZooKeeper; it is always false."""
