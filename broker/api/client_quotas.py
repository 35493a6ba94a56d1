"""DescribeClientQuotas and AlterClientQuotas (KIP-546).

Quotas are described from this broker's own image. The controller changes them; a broker enforces a
change when it has replayed it.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from ...protocol.api import ApiKey
from ...protocol.errors import MOST_DETAIL, ApiError, ErrorCode
from ...protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntryResult,
)
from ...protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from ...protocol.quotas import IP, OF_ADDRESSES, OF_CLIENTS, Match, QuotaEntity, address_of
from ..net.answer import Answer, Call
from .forwarded import Forwarded

Conditions = Mapping[str, tuple[Match, str | None]]
"""The condition on the name of each type of entity that a request names."""
NAMES: Final = {
    Match.EXACT: "MATCH_TYPE_EXACT",
    Match.DEFAULT: "MATCH_TYPE_DEFAULT",
    Match.ANY: "MATCH_TYPE_SPECIFIED",
}


def describe(call: Call, request: DescribeClientQuotasRequest) -> DescribeClientQuotasResponse:
    """List the entities that meet every condition, with their quotas."""
    try:
        conditions = _conditions(request.components)
    except ApiError as error:
        return DescribeClientQuotasResponse(
            error_code=error.code, error_message=error.detail, entries=None
        )
    return DescribeClientQuotasResponse(
        entries=[
            EntryData(
                entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                values=[ValueData(key=key, value=value) for key, value in quotas.items()],
            )
            for entity, quotas in call.edge.image.quotas.items()
            if _meets(entity, conditions, is_strict=request.strict)
        ]
    )


def _conditions(components: Iterable[ComponentData]) -> Conditions:
    """Return the conditions of a request; raise ApiError if they contradict each other."""
    found: dict[str, tuple[Match, str | None]] = {}
    for each in components:
        kind, name = each.entity_type, each.match
        if not kind:
            raise _invalid("Invalid empty entity type.")
        if kind in found:
            raise _invalid(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in (*OF_CLIENTS, *OF_ADDRESSES):
            why = f"Unsupported entity type {kind[:MOST_DETAIL]}"
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, why)
        try:
            match = Match(each.match_type)
        except ValueError:
            raise _invalid(f"Unknown match type {each.match_type}") from None
        if match is Match.EXACT and name is None:
            raise _invalid(f"Request specified {NAMES[match]}, but set match string to null.")
        if match is not Match.EXACT and name is not None:
            raise _invalid(f"Request specified {NAMES[match]}, but also specified a match string.")
        found[kind] = match, _spelled(kind, name)
    if IP in found and len(found) > 1:
        raise _invalid(
            "Invalid entity filter component combination. IP filter component should not be used"
            " with user or clientId filter component."
        )
    return found


def _spelled(kind: str, name: str | None) -> str | None:
    """Return a name in the spelling of entities.

    An IP address has one spelling; a text that is no address is returned unchanged, and no entity
    has that name.
    """
    if kind != IP:
        return name
    try:
        return address_of(name)
    except ApiError:
        return name


def _meets(entity: QuotaEntity, conditions: Conditions, *, is_strict: bool) -> bool:
    """True if the entity meets every condition, and, if `is_strict`, has no other types."""
    if is_strict and len(entity) != len(conditions):
        return False
    named = dict(entity)
    return all(
        kind in named and (match is Match.ANY or named[kind] == name)
        for kind, (match, name) in conditions.items()
    )


def alter(call: Call, request: AlterClientQuotasRequest) -> Answer:
    """Forward the request to the controller."""
    return Forwarded(call, request, ApiKey.ALTER_CLIENT_QUOTAS, _none_altered)


def _none_altered(
    request: AlterClientQuotasRequest, error: ErrorCode, why: str
) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        entries=[
            EntryResult(error_code=error, error_message=why, entity=each.entity)
            for each in request.entries
        ]
    )


def _invalid(why: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, why)
