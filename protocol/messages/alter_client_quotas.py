"""AlterClientQuotas: set or remove the quotas of users, clients and addresses (KIP-546)."""

from ..api import ApiKey
from ..schema import Bool, Float64, Int16, Int32, String, field, nested, request, response
from .describe_client_quotas import EntityData


@nested
class OpData:
    """One quota to set or to remove."""

    key: String
    value: Float64
    remove: Bool


@nested
class EntryData:
    """The changes to one entity."""

    entity: list[EntityData]
    ops: list[OpData]


@request(ApiKey.ALTER_CLIENT_QUOTAS, versions="0-1", flexible="1+")
class AlterClientQuotasRequest:
    """Changes to any number of entities."""

    entries: list[EntryData]
    validate_only: Bool


@nested
class EntryResult:
    """The result for one entity."""

    error_code: Int16 = field(default=0)
    error_message: String | None = field(default=None)
    entity: list[EntityData]


@response(ApiKey.ALTER_CLIENT_QUOTAS)
class AlterClientQuotasResponse:
    """A result for each entity."""

    throttle_time_ms: Int32 = field(default=0)
    entries: list[EntryResult]
