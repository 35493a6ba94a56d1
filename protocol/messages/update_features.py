"""UpdateFeatures: raise or lower the finalised levels of features (KIP-584, KIP-778)."""

from enum import IntEnum

from ..api import ApiKey
from ..schema import Bool, Int8, Int16, Int32, String, field, nested, request, response


class UpgradeType(IntEnum):
    """The kinds of change that the client permits."""

    UNKNOWN = 0
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    """Permit a lower level if no metadata is lost by it."""
    UNSAFE_DOWNGRADE = 3
    """Permit a lower level even if metadata is lost by it."""


@nested
class FeatureUpdateKey:
    """One feature and its new level."""

    feature: String
    max_version_level: Int16
    """The new level; a level below 1 switches the feature off."""
    allow_downgrade: Bool = field("0", default=False)
    upgrade_type: Int8 = field("1+", default=UpgradeType.UPGRADE)


@request(ApiKey.UPDATE_FEATURES, versions="0-2", flexible="0+")
class UpdateFeaturesRequest:
    """Change the levels of features, all of them or none."""

    timeout_ms: Int32 = field(default=60_000)
    feature_updates: list[FeatureUpdateKey]
    validate_only: Bool = field("1+", default=False)


@nested
class UpdatableFeatureResult:
    """The result for one feature."""

    feature: String
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default=None)


@response(ApiKey.UPDATE_FEATURES)
class UpdateFeaturesResponse:
    """One error for the whole request; up to version 1 also one result for each feature."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default=None)
    results: list[UpdatableFeatureResult] = field("0-1", default=[])
