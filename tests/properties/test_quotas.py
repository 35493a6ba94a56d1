"""Changes of client quotas in any order: who replays them knows what was asked for, and no more."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from minikafka.controller.metadata.quotas import alter_quotas
from minikafka.protocol.control.batches import load_snapshot, snapshot_batches
from minikafka.protocol.control.image import Delta, MetadataImage
from minikafka.protocol.control.messages import SnapshotId
from minikafka.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntryData,
    OpData,
)
from minikafka.protocol.messages.describe_client_quotas import EntityData
from minikafka.protocol.quotas import QUOTA_KEYS, QuotaEntity

from ..controller.machine import Machine

pytestmark = pytest.mark.slow

WHOLE = ("producer_byte_rate", "consumer_byte_rate", "connection_creation_rate")
ENTITIES: st.SearchStrategy[QuotaEntity] = st.sampled_from(
    [
        (("user", "a"),),
        (("user", None),),
        (("client-id", None), ("user", "a")),
        (("ip", "::1"),),
    ]
)
KEYS = list(QUOTA_KEYS)
ODD = st.dictionaries(
    st.sampled_from(KEYS), st.sampled_from([None, 1.0, 5e9, 0.5, 0.0]), max_size=3
)
"""Changes that are often not valid."""


def sensible(entity: QuotaEntity) -> st.SearchStrategy[dict[str, float | None]]:
    """Changes that are valid for the entity."""
    keys = [key for key in KEYS if entity[0][0] in QUOTA_KEYS[key].entities]
    return st.dictionaries(st.sampled_from(keys[:2]), st.sampled_from([None, 1.0, 2.0]), max_size=2)


CHANGES = ENTITIES.flatmap(
    lambda entity: st.tuples(st.just(entity), st.one_of(sensible(entity), ODD))
)
Change = tuple[QuotaEntity, Mapping[str, float | None]]


def may_have(entity: QuotaEntity, key: str, value: float | None) -> bool:
    """Kafka's rules, said once more in another way."""
    if value is None:
        return True
    of_addresses = key == "connection_creation_rate"
    is_whole = value == int(value) and (value < 2**31 or not of_addresses)
    return of_addresses == (entity[0][0] == "ip") and value > 0 and (is_whole or key not in WHOLE)


class ClientQuotas(RuleBasedStateMachine):
    """A controller, a broker that follows it, and one who looks only at what deltas name."""

    def __init__(self) -> None:
        super().__init__()
        self.machine = Machine()
        self.model: dict[QuotaEntity, dict[str, float]] = {}
        self.broker = MetadataImage()
        self.told: dict[QuotaEntity, dict[str, float]] = {}

    @rule(
        changes=st.lists(CHANGES, max_size=4),
        only_asks=st.sampled_from([False, False, False, True]),
    )
    def alter(self, changes: Sequence[Change], only_asks: bool) -> None:
        entries = [
            EntryData(
                # The order of the parts says nothing.
                entity=[EntityData(entity_type=k, entity_name=n) for k, n in reversed(entity)],
                ops=[
                    OpData(key=key, value=value or 0.0, remove=value is None)
                    for key, value in asked.items()
                ],
            )
            for entity, asked in changes
        ]
        request = AlterClientQuotasRequest(entries=entries, validate_only=only_asks)
        before = len(self.machine.log)
        answer = self.machine.carry_out(alter_quotas(self.machine.cluster, request))
        valid = [all(may_have(e, *each) for each in asked.items()) for e, asked in changes]
        assert [each.error_code == 0 for each in answer.entries] == valid
        written = 0
        for (entity, asked), is_valid in zip(changes, valid, strict=True):
            if is_valid and not only_asks:
                written += self.note(entity, asked)
        assert len(self.machine.log) - before == written, "only what changes is written"

    @rule(entity=ENTITIES)
    def clear(self, entity: QuotaEntity) -> None:
        """Remove all that the entity has."""
        self.alter([(entity, dict.fromkeys(self.model.get(entity, {})))], only_asks=False)

    def note(self, entity: QuotaEntity, asked: Mapping[str, float | None]) -> int:
        """Change the model; return how many quotas differ then."""
        old = self.model.pop(entity, {})
        new = {key: value for key, value in {**old, **asked}.items() if value is not None}
        if new:
            self.model[entity] = new
        return sum(old.get(key) != new.get(key) for key in asked)

    @rule()
    def follow(self) -> None:
        delta, kept = Delta(), self.broker.copy()
        before = {entity: dict(values) for entity, values in kept.quotas.items()}
        for offset in range(self.broker.offset + 1, len(self.machine.log)):
            self.broker.apply(self.machine.log[offset], offset, delta)
        assert kept.quotas == before
        for entity in delta.changed_quotas:
            self.told.pop(entity, None)
            if entity in self.broker.quotas:
                self.told[entity] = self.broker.quotas[entity]
        assert self.told == self.broker.quotas == self.model

    @rule()
    def restart(self) -> None:
        image = self.machine.image
        data = b"".join(snapshot_batches(image, 0))
        self.broker = load_snapshot(data, SnapshotId(image.offset + 1, image.epoch))
        assert self.broker == image
        self.told = dict(self.broker.quotas)

    @invariant()
    def the_controller_has_what_was_asked_for(self) -> None:
        assert self.machine.image.quotas == self.model


TestClientQuotas = ClientQuotas.TestCase
