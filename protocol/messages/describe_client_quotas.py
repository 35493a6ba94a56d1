"""DescribeClientQuotas: list the quotas of users, client ids and addresses (KIP-546)."""

from ..api import ApiKey
from ..schema import Bool, Float64, Int8, Int16, Int32, String, field, nested, request, response


@nested
class ComponentData:
    """The condition on one part of an entity."""

    entity_type: String
    match_type: Int8
    """The kind of match: 0 for the name in `match`, 1 for the default entity, 2 for any name."""
    match: String | None


@request(ApiKey.DESCRIBE_CLIENT_QUOTAS, versions="0-1", flexible="1+")
class DescribeClientQuotasRequest:
    """Ask for the quotas of the entities that meet all conditions."""

    components: list[ComponentData]
    strict: Bool
    """If true, leave out entities that have parts without a condition in the request."""


@nested
class EntityData:
    """One part of an entity: its type and its name. A null name is the default of that type."""

    entity_type: String
    entity_name: String | None


@nested
class ValueData:
    """One quota and its value."""

    key: String
    value: Float64


@nested
class EntryData:
    """An entity and its quotas."""

    entity: list[EntityData]
    values: list[ValueData]


@response(ApiKey.DESCRIBE_CLIENT_QUOTAS)
class DescribeClientQuotasResponse:
    """The entities found; `entries` is None if there is an error."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default=None)
    entries: list[EntryData] | None
