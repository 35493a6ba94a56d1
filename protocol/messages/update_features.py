"""UpdateFeatures: finalise levels of features, up or down (KIP-584, KIP-778)."""

from enum import IntEnum

from ..api import ApiKey
from ..schema import Bool, Int8, Int16, Int32, String, field, nested, request, response


class UpgradeType(IntEnum):
    """The kinds of change that the client allows."""

    UNKNOWN = 0
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    """A lower level, as long as no metadata is lost by it."""
    UNSAFE_DOWNGRADE = 3
    """A lower level, even if metadata is lost."""


@nested
class FeatureUpdateKey:
    """One feature and its new level."""

    feature: String
    max_version_level: Int16
    """Below 1: the feature is switched off."""
    allow_downgrade: Bool = field("0", default=False)
    upgrade_type: Int8 = field("1+", default=UpgradeType.UPGRADE)


@request(ApiKey.UPDATE_FEATURES, versions="0-2", flexible="0+")
class UpdateFeaturesRequest:
    """Change levels; either all are changed or none."""

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
    """One error for all; up to version 1 also one result for each."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default=None)
    results: list[UpdatableFeatureResult] = field("0-1", default=[])
