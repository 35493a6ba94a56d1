"""ApiVersions: the first request on a connection; which versions the broker serves.

The one response whose header never has tagged fields, and the one API whose unknown versions are
answered: with UNSUPPORTED_VERSION in version 0 (KIP-511).
"""

from ..api import ApiKey
from ..schema import Bool, Int16, Int32, Int64, String, field, nested, request, response


@request(ApiKey.API_VERSIONS, versions="0-4", flexible="3+")
class ApiVersionsRequest:
    """Ask what the broker speaks."""

    client_software_name: String = field("3+", default="")
    client_software_version: String = field("3+", default="")


@nested
class ApiVersion:
    """The versions of one API."""

    api_key: Int16
    min_version: Int16
    max_version: Int16


@nested
class SupportedFeatureKey:
    """The levels of a feature this broker could run."""

    name: String
    min_version: Int16
    """0 only from version 4 on: older clients take it for an error (KIP-584, KAFKA-17011)."""
    max_version: Int16


@nested
class FinalizedFeatureKey:
    """The level of a feature the cluster runs."""

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
    """Grows with each change of the finalised features; -1 when they are unknown."""
    finalized_features: list[FinalizedFeatureKey] = field("3+", default=[], tag=2)
    zk_migration_ready: Bool = field("3+", default=False, tag=3)
    """A remnant of the move away from ZooKeeper; always false."""
