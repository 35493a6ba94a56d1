"""ForwardedRequest: answers Kafka admin requests that a broker passed on.

A broker that got no answer repeats the request with the same idempotency key. It gets the answer to
the first request, once there is one. A restart of the controller loses those answers, but the ids
of new topics are computed from the key, so a repeated request recognises the topics it created.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from ...protocol.api import ApiKey
from ...protocol.codec import decode, encode_bytes, request_class
from ...protocol.control.messages import ForwardedAnswer, ForwardedRequest
from ...protocol.errors import ApiError, ErrorCode, ProtocolError
from ..metadata.acls import create_acls, delete_acls
from ..metadata.auditing import Asked, audited
from ..metadata.brokers import unregister
from ..metadata.configuration import alter_whole, incremental_alter
from ..metadata.decision import Cluster, Decision, Occasion
from ..metadata.elections import elect_leaders
from ..metadata.features import update_features
from ..metadata.mutations import allowance_of
from ..metadata.quotas import alter_quotas
from ..metadata.reassignments import alter_reassignments, list_reassignments
from ..metadata.scram import alter_credentials
from ..metadata.tokens import create_token, expire_token, renew_token
from ..metadata.topics import create_partitions, create_topics, delete_topics
from .describe_quorum import describe_quorum
from .elect_leaders import wait_until_elected

if TYPE_CHECKING:
    from ..driver import Controller
    from .session import Session

DEADLINE_MAX_MS: Final = 300_000

log = logging.getLogger(__name__)

Decide = Callable[[Cluster, Any, Occasion], Decision[Any]]


def _with_ids(
    decide: Callable[[Cluster, Any, Callable[[str], bytes]], Decision[Any]],
) -> Decide:
    """Return a `Decide` for a decision function that takes only `id_of` of the occasion."""
    return lambda cluster, request, occasion: decide(cluster, request, occasion.id_of)


FORWARDED: dict[int, Decide] = {
    ApiKey.CREATE_TOPICS: lambda cluster, request, occasion: create_topics(
        cluster, request, occasion.id_of, occasion.allowance, by_broker=not occasion.principal
    ),
    ApiKey.DELETE_TOPICS: lambda cluster, request, occasion: delete_topics(
        cluster, request, occasion.allowance
    ),
    ApiKey.CREATE_PARTITIONS: lambda cluster, request, occasion: create_partitions(
        cluster, request, occasion.allowance
    ),
    ApiKey.ELECT_LEADERS: lambda cluster, request, _: elect_leaders(cluster, request),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: lambda cluster, request, _: alter_reassignments(
        cluster, request
    ),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: lambda cluster, request, _: list_reassignments(
        cluster, request
    ),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: lambda cluster, request, _: incremental_alter(
        cluster, request
    ),
    ApiKey.ALTER_CONFIGS: lambda cluster, request, _: alter_whole(cluster, request),
    ApiKey.UPDATE_FEATURES: lambda cluster, request, _: update_features(cluster, request),
    ApiKey.UNREGISTER_BROKER: lambda cluster, request, _: unregister(cluster, request),
    ApiKey.ALTER_CLIENT_QUOTAS: lambda cluster, request, _: alter_quotas(cluster, request),
    ApiKey.CREATE_ACLS: _with_ids(create_acls),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _with_ids(alter_credentials),
    ApiKey.DELETE_ACLS: lambda cluster, request, _: delete_acls(cluster, request),
    ApiKey.CREATE_DELEGATION_TOKEN: create_token,
    ApiKey.RENEW_DELEGATION_TOKEN: renew_token,
    ApiKey.EXPIRE_DELEGATION_TOKEN: expire_token,
}
"""The requests that may be forwarded and are decided on the cluster's state, by API key."""

QUESTIONS: dict[int, Callable[["Controller", Any], object]] = {
    ApiKey.DESCRIBE_QUORUM: describe_quorum,
}
"""Requests that change nothing and that only the active controller can answer."""


async def answer(session: "Session", request: ForwardedRequest) -> ForwardedAnswer:
    """Carry out the request once for all its repetitions; answer within its deadline."""
    answers = session.server.answers
    known = answers.get(request.idempotency_key)
    if known is None:
        deciding = _decide(session, request)
        known = session.server.runtime.spawn(deciding, "forwarded request")
        answers.remember(request.idempotency_key, known)
    deadline_ms = max(1, min(request.deadline_ms, DEADLINE_MAX_MS))
    try:
        # Shielded, because the deadline ends only this wait: a repetition may wait longer.
        async with asyncio.timeout(deadline_ms / 1000):
            return await asyncio.shield(known)
    except TimeoutError:
        detail = f"not committed within {deadline_ms} ms: it may still happen"
        return ForwardedAnswer(ErrorCode.REQUEST_TIMED_OUT, detail)


async def _decide(session: "Session", request: ForwardedRequest) -> ForwardedAnswer:
    """Decode the request and decide; errors become answers."""
    controller = session.server.controller
    decide, tell = FORWARDED.get(request.api_key), QUESTIONS.get(request.api_key)
    if decide is None and tell is None:
        detail = f"requests of API {request.api_key} are not forwarded"
        return ForwardedAnswer(ErrorCode.UNSUPPORTED_VERSION, detail)
    name, version = ApiKey(request.api_key).name, request.api_version
    try:
        asked: Any = decode(request_class(request.api_key), version, request.body)
    except ProtocolError as error:
        return ForwardedAnswer(ErrorCode.INVALID_REQUEST, f"{name} version {version}: {error}")
    key = request.idempotency_key or controller.runtime.rng.randbytes(16)

    def made(cluster: Cluster, allowed: Any) -> Decision[Any]:
        if decide is None:
            assert tell is not None
            return Decision(tell(controller, allowed))
        runtime, quotas = controller.runtime, session.server.quotas
        allowance = allowance_of(quotas, request, runtime.monotonic_ms())
        occasion = Occasion(
            request.principal, runtime.wall_ms(), lambda name: topic_id_of(key, name), allowance
        )
        return decide(cluster, allowed, occasion)

    def decision(cluster: Cluster) -> Decision[Any]:
        authorizing = session.authorizing
        if authorizing is None:
            return _audited(cluster, made(cluster, asked))
        return _audited(
            cluster, authorizing.decide(request, asked, cluster, partial(made, cluster))
        )

    def _audited(cluster: Cluster, decided: Decision[Any]) -> Decision[Any]:
        return audited(cluster, _asked(request, key, controller.runtime.wall_ms()), decided)

    response: Any
    try:
        if decide is None:
            controller.check_active()
            response = decision(controller.cluster).answer
        else:
            response = await controller.decide(decision)
        if request.api_key == ApiKey.ELECT_LEADERS:
            await wait_until_elected(controller, asked, response)
    except ApiError as error:
        return ForwardedAnswer(error.code, error.detail)
    if decide is not None:
        log.info("%s asked by %s", name, _asker(request))
    return ForwardedAnswer(ErrorCode.NONE, body=encode_bytes(response, version))


def _asked(request: ForwardedRequest, key: bytes, now_ms: int) -> Asked:
    """Return what the audit tells of a request."""
    return Asked(
        action="".join(part.capitalize() for part in ApiKey(request.api_key).name.split("_")),
        principal=request.principal,
        client_id=request.client_id,
        host=request.host,
        request_id=key,
        at_ms=now_ms,
    )


def _asker(request: ForwardedRequest) -> str:
    if not request.principal:
        return "a broker itself"
    return f"{request.principal} at {request.host or '?'} by listener {request.listener or '?'}"


def topic_id_of(key: bytes, name: str) -> bytes:
    """Compute an id from the request's key and a name: 16 bytes, the same for each try."""
    return blake2b(name.encode(), key=key[:64], digest_size=16).digest()
