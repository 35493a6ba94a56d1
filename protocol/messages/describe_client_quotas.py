"""DescribeClientQuotas: bounds set for users, clients and addresses (KIP-546)."""

from ..api import ApiKey
from ..schema import Bool, Float64, Int8, Int16, Int32, String, field, nested, request, response


@nested
class ComponentData:
    """The condition on one part of an entity."""

    entity_type: String
    match_type: Int8
    """0 if the name must be `match`, 1 if it must be the default, 2 if any name matches."""
    match: String | None


@request(ApiKey.DESCRIBE_CLIENT_QUOTAS, versions="0-1", flexible="1+")
class DescribeClientQuotasRequest:
    """Ask for the bounds of the entities that match."""

    components: list[ComponentData]
    strict: Bool
    """Without entities that have further parts."""


@nested
class EntityData:
    """One part of an entity; null is the default of its type."""

    entity_type: String
    entity_name: String | None


@nested
class ValueData:
    """One bound."""

    key: String
    value: Float64


@nested
class EntryData:
    """An entity and its bounds."""

    entity: list[EntityData]
    values: list[ValueData]


@response(ApiKey.DESCRIBE_CLIENT_QUOTAS)
class DescribeClientQuotasResponse:
    """The entities found; None if there was an error."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default=None)
    entries: list[EntryData] | None
