"""Describes and changes client quotas (KIP-546)."""

from collections.abc import Mapping

from ...protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntryData,
    OpData,
)
from ...protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
)
from ...protocol.quotas import CLIENT_ID, IP, USER, Match
from ..net.connection import KafkaConnection
from ..outcomes import Outcomes, done_of, error_of, raise_for
from .asking import Asking
from .quota_types import QuotaEntity


async def describe_client_quotas(
    asking: Asking, parts: Mapping[str, str | None] | None = None, *, strict: bool = False
) -> dict[QuotaEntity, dict[str, float]]:
    """Return the quotas of the entities that have these parts, or of all entities.

    `parts` maps a type (`user`, `client-id`, `ip`) to a name; the name "" means the default of the
    type, None any name. If `strict`, entities with further parts are left out. Raise ApiError if
    the types do not go together. The broker that is asked may not have replayed the newest changes
    yet.
    """
    components = [_component(kind, name) for kind, name in (parts or {}).items()]
    request = DescribeClientQuotasRequest(components=components, strict=strict)

    async def ask(connection: KafkaConnection) -> DescribeClientQuotasResponse:
        response: DescribeClientQuotasResponse = await asking.request(connection, request)
        raise_for(response.error_code, response.error_message)
        return response

    response = await asking.one_broker(ask)
    return {
        _entity(entry.entity): {each.key: each.value for each in entry.values}
        for entry in response.entries or ()
    }


async def alter_client_quotas(
    asking: Asking,
    changes: Mapping[QuotaEntity, Mapping[str, float | None]],
    *,
    validate_only: bool = False,
) -> None:
    """Set quotas of each entity; a value of None removes the quota.

    The quotas of one entity are changed all or none. If `validate_only`, nothing is changed. Raise
    AdminError with the entities that were refused.
    """
    entries = [
        EntryData(
            entity=[
                EntityData(entity_type=kind, entity_name=name)
                for kind, name in entity.parts.items()
            ],
            ops=[
                OpData(key=key, value=value or 0.0, remove=value is None)
                for key, value in quotas.items()
            ],
        )
        for entity, quotas in changes.items()
    ]
    request = AlterClientQuotasRequest(entries=entries, validate_only=validate_only)
    response: AlterClientQuotasResponse = await asking.one_broker(
        lambda connection: asking.request(connection, request)
    )
    outcomes: Outcomes[None] = {
        str(_entity(each.entity)): error_of(each.error_code, each.error_message)
        for each in response.entries
    }
    done_of(outcomes)


def _component(kind: str, name: str | None) -> ComponentData:
    if name is None:
        return ComponentData(entity_type=kind, match_type=Match.ANY, match=None)
    if not name:
        return ComponentData(entity_type=kind, match_type=Match.DEFAULT, match=None)
    return ComponentData(entity_type=kind, match_type=Match.EXACT, match=name)


def _entity(parts: list[EntityData]) -> QuotaEntity:
    named = {part.entity_type: part.entity_name or "" for part in parts}
    return QuotaEntity(user=named.get(USER), client_id=named.get(CLIENT_ID), ip=named.get(IP))
