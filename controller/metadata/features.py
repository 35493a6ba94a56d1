"""The finalised levels of the cluster's features, and how they are changed (KIP-584).

All updates of a request are made, or none. A level that this controller or a registered broker does
not support is refused, and so is a downgrade unless the request allows it.
"""

from collections.abc import Callable, Sequence

from ...protocol.control.messages import VersionRange
from ...protocol.control.records import (
    ELIGIBLE_LEADERS,
    SUPPORTED_FEATURES,
    ClusterRecord,
    FeatureRecord,
    MetadataRecord,
)
from ...protocol.errors import ApiError, ErrorCode
from ...protocol.kafka_features import NOT_HERE, meant_level, told_level, told_range
from ...protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
    UpgradeType,
)
from .decision import Cluster, Decision
from .eligible_leaders import default_min_isr, on_level_changed

ON_CHANGE: dict[str, Callable[[Cluster, int], Sequence[MetadataRecord]]] = {
    ELIGIBLE_LEADERS: on_level_changed
}
"""Functions by feature; each returns the other records that a new level needs."""
NONE = VersionRange(0, 0)


def first_records(cluster: Cluster, cluster_id: str) -> list[MetadataRecord]:
    """Return the first records of a new cluster: its id, and every feature at its highest level."""
    return [
        ClusterRecord(cluster_id),
        *(FeatureRecord(name, levels.highest) for name, levels in SUPPORTED_FEATURES.items()),
        *default_min_isr(cluster),
    ]


def update_features(
    cluster: Cluster, request: UpdateFeaturesRequest
) -> Decision[UpdateFeaturesResponse]:
    """Finalise the requested levels; if one is refused, the answer has its error."""
    records: list[MetadataRecord] = []
    results: list[UpdatableFeatureResult] = []
    refused = ""
    seen: dict[str, None] = {}
    for update in request.feature_updates:
        result = UpdatableFeatureResult(feature=update.feature)
        try:
            if update.feature in seen:
                raise ApiError(ErrorCode.INVALID_REQUEST, f"{update.feature} is named twice")
            seen[update.feature] = None
            records.extend(_changes(cluster, update))
        except ApiError as error:
            result.error_code, result.error_message = error.code, error.detail
            refused = refused or f"{update.feature}: {error.detail}"
        results.append(result)
    response = UpdateFeaturesResponse(results=results)
    if refused:
        first = next(one for one in results if one.error_code)
        response.error_code = first.error_code
        response.error_message = f"nothing was changed: {refused}"
    return Decision(response, () if refused or request.validate_only else records)


def _changes(cluster: Cluster, update: FeatureUpdateKey) -> Sequence[MetadataRecord]:
    """Return the records of one update; none if the level is set already."""
    name = update.feature
    level = meant_level(name, update.max_version_level)
    present = cluster.image.features.get(name, 0)
    _check_supported(cluster, update)
    if level == present:
        return ()
    _check_direction(update, told_level(name, present))
    more = ON_CHANGE[name](cluster, level) if name in ON_CHANGE else ()
    return (FeatureRecord(name, level), *more)


def _check_supported(cluster: Cluster, update: FeatureUpdateKey) -> None:
    name, level = update.feature, update.max_version_level
    supported = SUPPORTED_FEATURES.get(name) or NOT_HERE.get(name)
    if supported is None:
        detail = "the controller does not know this feature"
        raise ApiError(ErrorCode.INVALID_UPDATE_VERSION, detail)
    if level < 0:
        raise ApiError(ErrorCode.INVALID_UPDATE_VERSION, f"there is no level {level}")
    brokers = cluster.image.brokers
    for who, levels in (
        ("the controller", supported),
        *((f"broker {each}", brokers[each].features.get(name, NONE)) for each in sorted(brokers)),
    ):
        told = told_range(name, levels)
        if not told.lowest <= level <= told.highest:
            detail = f"{who} supports levels {told.lowest}-{told.highest}, not {level}"
            raise ApiError(ErrorCode.INVALID_UPDATE_VERSION, detail)


def _check_direction(update: FeatureUpdateKey, present: int) -> None:
    level, wanted = update.max_version_level, update.upgrade_type
    downgrades = (UpgradeType.SAFE_DOWNGRADE, UpgradeType.UNSAFE_DOWNGRADE)
    if wanted not in (UpgradeType.UPGRADE, *downgrades):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"there is no upgrade type {wanted}")
    # Version 0 of the request has a flag instead.
    may_fall = wanted in downgrades or update.allow_downgrade
    if level < present and not may_fall:
        detail = f"it is at level {present}: a lower one only as a downgrade"
        raise ApiError(ErrorCode.INVALID_UPDATE_VERSION, detail)
    if level > present and wanted in downgrades:
        detail = f"it is at level {present}: {level} is no downgrade"
        raise ApiError(ErrorCode.INVALID_UPDATE_VERSION, detail)
