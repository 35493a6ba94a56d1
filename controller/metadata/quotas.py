"""Client quotas: which are set and which are removed (AlterClientQuotas, KIP-546).

Each entity gets its own result. A quota that keeps its value is not written again.
"""

from ...protocol.control.records import ClientQuotaRecord, MetadataRecord
from ...protocol.errors import ApiError, ErrorCode
from ...protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntryData,
    EntryResult,
)
from ...protocol.quotas import QuotaEntity, check_quota, entity_of
from .decision import DECISION_RECORDS_MAX, Cluster, Decision


def alter_quotas(
    cluster: Cluster, request: AlterClientQuotasRequest
) -> Decision[AlterClientQuotasResponse]:
    """Change the quotas of the entities whose changes are all valid.

    Raise ApiError if the request makes more changes than one decision can hold.
    """
    draft: dict[QuotaEntity, dict[str, float]] = {}
    records: list[MetadataRecord] = []
    results: list[EntryResult] = []
    for entry in request.entries:
        result = EntryResult(entity=entry.entity)
        try:
            records.extend(_changes(cluster, draft, entry))
        except ApiError as error:
            result.error_code, result.error_message = error.code, error.detail
        results.append(result)
        if len(records) > DECISION_RECORDS_MAX:
            why = f"more than {DECISION_RECORDS_MAX} quotas in one request"
            raise ApiError(ErrorCode.INVALID_REQUEST, why)
    answer = AlterClientQuotasResponse(entries=results)
    return Decision(answer, () if request.validate_only else records)


def _changes(
    cluster: Cluster, draft: dict[QuotaEntity, dict[str, float]], entry: EntryData
) -> list[ClientQuotaRecord]:
    """Return the records of one entity's changes, and put its resulting quotas into `draft`.

    Raise ApiError if a change is not valid. Removing a quota that is not set is valid.
    """
    entity = entity_of((part.entity_type, part.entity_name) for part in entry.entity)
    quotas = dict(draft[entity] if entity in draft else cluster.image.quotas.get(entity, {}))
    records: list[ClientQuotaRecord] = []
    wanted = {op.key: None if op.remove else op.value for op in entry.ops}
    for key, value in wanted.items():
        if value is not None:
            check_quota(entity, key, value)
        if value == quotas.get(key):
            continue
        records.append(ClientQuotaRecord(dict(entity), key, value))
        if value is None:
            del quotas[key]
        else:
            quotas[key] = value
    draft[entity] = quotas
    return records
