"""The guards of single APIs, whose requests or refusals have a form of their own."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ...protocol.acls import CLUSTER_NAME, Operation, Resource
from ...protocol.errors import ErrorCode
from ...protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from ...protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from ...protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from ...protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from ...protocol.messages.create_topics import CreateTopicsResponse
from ...protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from ...protocol.messages.describe_configs import ResourceType
from ...protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribeDelegationTokenResponse,
)
from ...protocol.messages.find_coordinator import CoordinatorType, FindCoordinatorRequest
from ...protocol.messages.init_producer_id import InitProducerIdRequest
from ...protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponseTopics,
)
from .guards import (
    Amend,
    Asker,
    Narrowed,
    Need,
    Refused,
    Verdict,
    adding,
    by_name_or_id,
    demanded,
    narrowed,
    response_to,
    rights_of,
)
from .refusing import WHY, refused, refused_whole

TOPIC, GROUP, CLUSTER, TRANSACTION = (
    Resource.TOPIC,
    Resource.GROUP,
    Resource.CLUSTER,
    Resource.TRANSACTIONAL_ID,
)
NONE: Final = ErrorCode.NONE
CONFIGS_IN_ANSWER_FROM: Final = 5
TOPIC_STATES_FROM: Final = 6
COORDINATOR_KEYS_FROM: Final = 4
GROUPS_FROM: Final = 8
OF_BROKERS_FROM: Final = 4


@dataclass(frozen=True, slots=True)
class CreatedConfigs:
    """CreateTopics: the settings of a new topic are told only to who may describe them."""

    needs: tuple[Need, ...] = (Need(Operation.DESCRIBE_CONFIGS, TOPIC),)

    def check(self, asker: Asker, request: Any) -> Verdict:
        """Allow the request, and hide settings in its response."""
        if asker.version < CONFIGS_IN_ANSWER_FROM:
            return None
        rights = rights_of(asker)

        def amend(response: CreateTopicsResponse) -> None:
            for topic in response.topics:
                if not topic.error_code and not rights.may(*self.needs[0], topic.name):
                    topic.topic_config_error_code = self.needs[0].error
                    topic.num_partitions = topic.replication_factor = -1
                    topic.configs = []

        return Narrowed(request, amend)


@dataclass(frozen=True, slots=True)
class DeletedTopics:
    """DeleteTopics: whoever may not describe a topic cannot tell whether it exists."""

    needs: tuple[Need, ...] = (Need(Operation.DELETE, TOPIC), Need(Operation.DELETE, CLUSTER))

    def check(self, asker: Asker, request: DeleteTopicsRequest) -> Verdict:
        """Take out of the request the topics that its client may not delete."""
        rights = rights_of(asker)
        if rights.may(Operation.DELETE, CLUSTER):
            return None

        def judged(item: DeleteTopicState | str) -> ErrorCode:
            name = self._name(asker, item)
            if name is None or rights.may(Operation.DELETE, TOPIC, name):
                return NONE
            # That a topic is missing is told to whoever would see it if it existed.
            if name not in asker.image.topic_ids and rights.may(Operation.DESCRIBE, TOPIC, name):
                return NONE
            demanded(asker, request, self.needs[0], name)
            return self.needs[0].error

        def add(
            response: DeleteTopicsResponse, item: DeleteTopicState | str, error: ErrorCode
        ) -> None:
            result = DeletableTopicResult(name=None, error_code=error, error_message=WHY)
            if isinstance(item, str):
                result.name = item
            else:
                result.name, result.topic_id = item.name, item.topic_id
                name = self._name(asker, item)
                if name is not None and rights.may(Operation.DESCRIBE, TOPIC, name):
                    result.name = name
            response.responses.append(result)

        items = "topics" if asker.version >= TOPIC_STATES_FROM else "topic_names"
        return narrowed(request, items, judged, add)

    def _name(self, asker: Asker, item: DeleteTopicState | str) -> str | None:
        return item if isinstance(item, str) else item.name or by_name_or_id(asker, item)


@dataclass(frozen=True, slots=True)
class Coordinators:
    """FindCoordinator: who may describe a group or transactional id may find its coordinator."""

    needs: tuple[Need, ...] = (
        Need(Operation.DESCRIBE, GROUP),
        Need(Operation.DESCRIBE, TRANSACTION),
    )

    def check(self, asker: Asker, request: FindCoordinatorRequest) -> Verdict:
        """Take out the keys that the client may not describe."""
        if request.key_type not in (CoordinatorType.GROUP, CoordinatorType.TRANSACTION):
            return None  # There are no others here, which the handler will say.
        need = self.needs[request.key_type]

        def judged(key: str) -> ErrorCode:
            return NONE if demanded(asker, request, need, key) else need.error

        if asker.version >= COORDINATOR_KEYS_FROM:
            add = adding(request, "coordinators")
            return narrowed(request, "coordinator_keys", judged, add)
        error = judged(request.key)
        if not error:
            return None
        response = refused_whole(response_to(request), error)
        response.node_id = response.port = -1
        return Refused(response)


@dataclass(frozen=True, slots=True)
class FetchedOffsets:
    """OffsetFetch: the offsets of groups, for the topics that the client may see."""

    needs: tuple[Need, ...] = (Need(Operation.DESCRIBE, GROUP), Need(Operation.DESCRIBE, TOPIC))

    def check(self, asker: Asker, request: OffsetFetchRequest) -> Verdict:
        """Take out the groups and the topics that the client may not describe."""
        of_group = self.needs[0]
        if asker.version < GROUPS_FROM:
            if not demanded(asker, request, of_group, request.group_id):
                whole = refused_whole(OffsetFetchResponse, of_group.error, "topics", request.topics)
                if asker.version > 1:
                    whole.topics = []  # Version 1 has no other place for the error.
                return Refused(whole)
            topics, amend = self._seen(asker, request)
            return Narrowed(replace(request, topics=topics), amend)
        amends: list[Amend] = []
        groups: list[OffsetFetchRequestGroup] = []
        bad: list[OffsetFetchResponseGroup] = []
        for group in request.groups:
            if not demanded(asker, request, of_group, group.group_id):
                refusal = refused(OffsetFetchResponseGroup, group.group_id, of_group.error)
                bad.append(refusal)
                continue
            topics, amend = self._seen(asker, group)
            groups.append(replace(group, topics=topics))
            amends.append(amend)

        def amend_all(response: OffsetFetchResponse) -> None:
            for told, amend in zip(response.groups, amends, strict=True):
                amend(told)
            response.groups.extend(bad)

        return Narrowed(replace(request, groups=groups) if groups else None, amend_all)

    def _seen(
        self, asker: Asker, asked: OffsetFetchRequest | OffsetFetchRequestGroup
    ) -> tuple[Any, Amend]:
        """Return the topics to look up, and a function that amends the offsets of this group."""
        rights, (_, need) = rights_of(asker), self.needs

        def is_seen(topic: Any) -> bool:
            name = by_name_or_id(asker, topic)
            return name is None or rights.may(*need, name)

        if asked.topics is None:

            def hide(told: Any) -> None:
                told.topics = [topic for topic in told.topics if is_seen(topic)]

            return None, hide
        bad = [topic for topic in asked.topics if not is_seen(topic)]

        def add(told: Any) -> None:
            if not told.error_code:
                told.topics += [
                    refused(OffsetFetchResponseTopics, topic, need.error) for topic in bad
                ]

        return [topic for topic in asked.topics if is_seen(topic)], add


@dataclass(frozen=True, slots=True)
class ProducerId:
    """InitProducerId: for a transactional id, or for whoever may write to some topic."""

    needs: tuple[Need, ...] = (
        Need(Operation.WRITE, TRANSACTION),
        Need(Operation.IDEMPOTENT_WRITE, CLUSTER),
        Need(Operation.WRITE, TOPIC),
    )

    def check(self, asker: Asker, request: InitProducerIdRequest) -> Verdict:
        """Refuse the request if the client may not write at all."""
        name = request.transactional_id
        if name is not None:
            need = self.needs[0]
            is_allowed = demanded(asker, request, need, name)
        else:
            _, need, on_topic = self.needs
            is_allowed = rights_of(asker).may_any(*on_topic) or demanded(asker, request, need)
        if is_allowed:
            return None
        return Refused(refused_whole(response_to(request), need.error))


@dataclass(frozen=True, slots=True)
class AddedPartitions:
    """AddPartitionsToTxn: by producers up to version 3, then by brokers; all partitions or none."""

    needs: tuple[Need, ...] = (
        Need(Operation.WRITE, TRANSACTION),
        Need(Operation.WRITE, TOPIC),
        Need(Operation.CLUSTER_ACTION, CLUSTER),
    )

    def check(self, asker: Asker, request: AddPartitionsToTxnRequest) -> Verdict:
        """Refuse the request if anything in it is not allowed."""
        of_transaction, of_topic, of_brokers = self.needs
        if asker.version >= OF_BROKERS_FROM:
            if demanded(asker, request, of_brokers):
                return None
            return Refused(AddPartitionsToTxnResponse(error_code=of_brokers.error))
        if not demanded(asker, request, of_transaction, request.v3_and_below_transactional_id):
            return Refused(_of_topics(request, {}, of_transaction.error))
        topics = request.v3_and_below_topics
        bad = {
            each.name: of_topic.error
            for each in topics
            if not demanded(asker, request, of_topic, each.name)
        }
        if not bad:
            return None
        return Refused(_of_topics(request, bad, ErrorCode.OPERATION_NOT_ATTEMPTED))


def _of_topics(
    request: AddPartitionsToTxnRequest, errors: dict[str, ErrorCode], other: ErrorCode
) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(
                        partition_index=index, partition_error_code=errors.get(topic.name, other)
                    )
                    for index in topic.partitions
                ],
            )
            for topic in request.v3_and_below_topics
        ]
    )


@dataclass(frozen=True, slots=True)
class CommittedTransactions:
    """CommitGroup: whoever may write with the group's name and each transactional id commits them.

    The group is asked for too, because a commit aborts what else is open in it.
    """

    needs: tuple[Need, ...] = (Need(Operation.WRITE, TRANSACTION),)

    def check(self, asker: Asker, request: Any) -> Verdict:
        """Refuse the request if one of its transactions is not the client's."""
        need = self.needs[0]
        names = [request.group, *(each.transactional_id for each in request.transactions)]
        if all(demanded(asker, request, need, name) for name in names):
            return None
        return Refused(refused_whole(response_to(request), need.error))


@dataclass(frozen=True, slots=True)
class Configs:
    """DescribeConfigs, AlterConfigs, IncrementalAlterConfigs: one right for each resource."""

    operation: Operation
    results: str

    @property
    def needs(self) -> Sequence[Need]:
        """The operation on topics and groups, and on the cluster for all other resources."""
        return tuple(Need(self.operation, kind) for kind in (TOPIC, GROUP, CLUSTER))

    def check(self, asker: Asker, request: Any) -> Verdict:
        """Take out the resources whose settings the client may not describe or alter."""

        def judged(resource: Any) -> ErrorCode:
            need, name = self._need(resource)
            return NONE if demanded(asker, request, need, name) else need.error

        return narrowed(request, "resources", judged, adding(request, self.results))

    def _need(self, resource: Any) -> tuple[Need, str]:
        kind, name = resource.resource_type, resource.resource_name
        if kind == ResourceType.TOPIC:
            return Need(self.operation, TOPIC), name
        if kind == ResourceType.GROUP:
            return Need(self.operation, GROUP), name
        is_altered_logger = (
            kind == ResourceType.BROKER_LOGGER and self.operation is Operation.ALTER_CONFIGS
        )
        operation = Operation.CLUSTER_ACTION if is_altered_logger else self.operation
        return Need(operation, CLUSTER), CLUSTER_NAME


@dataclass(frozen=True, slots=True)
class ScramUsers:
    """AlterUserScramCredentials: the whole request, which is refused user by user."""

    needs: tuple[Need, ...] = (Need(Operation.ALTER, CLUSTER),)

    def check(self, asker: Asker, request: AlterUserScramCredentialsRequest) -> Verdict:
        """Refuse each user if the client may not alter the cluster."""
        (need,) = self.needs
        if demanded(asker, request, need):
            return None
        names = dict.fromkeys(each.name for each in request.deletions)
        names |= dict.fromkeys(each.name for each in request.upsertions)
        return Refused(
            AlterUserScramCredentialsResponse(
                results=[
                    refused(AlterUserScramCredentialsResult, name, need.error) for name in names
                ]
            )
        )


@dataclass(frozen=True, slots=True)
class MovedReplicas:
    """AlterReplicaLogDirs: the whole request, which is refused replica by replica."""

    needs: tuple[Need, ...] = (Need(Operation.ALTER, CLUSTER),)

    def check(self, asker: Asker, request: AlterReplicaLogDirsRequest) -> Verdict:
        """Refuse each replica if the client may not alter the cluster."""
        (need,) = self.needs
        if demanded(asker, request, need):
            return None
        results = [
            AlterReplicaLogDirTopicResult(
                topic_name=topic.name,
                partitions=[
                    AlterReplicaLogDirPartitionResult(partition_index=index, error_code=need.error)
                    for index in topic.partitions
                ],
            )
            for each in request.dirs
            for topic in each.topics
        ]
        return Refused(AlterReplicaLogDirsResponse(results=results))


@dataclass(frozen=True, slots=True)
class TokenOwner:
    """CreateDelegationToken: a token of somebody else needs a right, an own one needs none."""

    needs: tuple[Need, ...] = (Need(Operation.CREATE_TOKENS, Resource.USER),)

    def check(self, asker: Asker, request: CreateDelegationTokenRequest) -> Verdict:
        """Refuse the request if the token is of a user for whom the client may not make any."""
        owner = f"{request.owner_principal_type}:{request.owner_principal_name}"
        if not request.owner_principal_name or owner == str(rights_of(asker).principal):
            return None
        (need,) = self.needs
        if demanded(asker, request, need, owner):
            return None
        return Refused(refused_whole(response_to(request), need.error))


@dataclass(frozen=True, slots=True)
class ShownTokens:
    """DescribeDelegationToken: own tokens are told, and those that the client may describe."""

    needs: tuple[Need, ...] = (
        Need(Operation.DESCRIBE, Resource.DELEGATION_TOKEN),
        Need(Operation.DESCRIBE_TOKENS, Resource.USER),
    )

    def check(self, asker: Asker, request: Any) -> Verdict:
        """Allow the request, but take other tokens out of its response."""
        rights = rights_of(asker)
        by_token, by_owner = self.needs
        own = (rights.principal.type, rights.principal.name)

        def is_shown(token: DescribedDelegationToken) -> bool:
            owner = (token.principal_type, token.principal_name)
            requester = (token.token_requester_principal_type, token.token_requester_principal_name)
            renewers = [(each.principal_type, each.principal_name) for each in token.renewers]
            return (
                own in (owner, requester, *renewers)
                or rights.may(*by_token, token.token_id)
                or rights.may(*by_owner, ":".join(owner))
            )

        def amend(response: DescribeDelegationTokenResponse) -> None:
            response.tokens = [token for token in response.tokens if is_shown(token)]

        return Narrowed(request, amend)
