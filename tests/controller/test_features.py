"""Levels of features: what may be finalised, when, and that all updates are made or none."""

import pytest

from minikafka.controller.metadata.features import update_features
from minikafka.protocol.control.messages import VersionRange
from minikafka.protocol.control.records import ELIGIBLE_LEADERS, METADATA_VERSION
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
    UpgradeType,
)

from .machine import Machine

UP, SAFE, UNSAFE = UpgradeType.UPGRADE, UpgradeType.SAFE_DOWNGRADE, UpgradeType.UNSAFE_DOWNGRADE


def update(
    machine: Machine,
    *wanted: tuple[str, int, int],
    allow_downgrade: bool = False,
    validate_only: bool = False,
) -> UpdateFeaturesResponse:
    keys = [
        FeatureUpdateKey(
            feature=name, max_version_level=level, upgrade_type=how, allow_downgrade=allow_downgrade
        )
        for name, level, how in wanted
    ]
    request = UpdateFeaturesRequest(feature_updates=keys, validate_only=validate_only)
    return machine.carry_out(update_features(machine.cluster, request))


def test_a_feature_is_switched_on_and_off_again() -> None:
    machine = Machine(brokers_up=1)
    assert update(machine, (ELIGIBLE_LEADERS, 1, UP)).error_code == 0
    assert machine.image.features == {METADATA_VERSION: 1, ELIGIBLE_LEADERS: 1}
    assert update(machine, (ELIGIBLE_LEADERS, 0, SAFE)).error_code == 0
    assert machine.image.features == {METADATA_VERSION: 1}


def test_switching_eligible_leaders_off_clears_them() -> None:
    """Scenario L-02: the fields of a feature are gone with it, and nobody in sync is forgotten."""
    machine = Machine(brokers_up=3, elr=True, min_isr=2)
    machine.create("t", 1, 3)
    machine.fence(1, 2, 3)
    state = machine.state("t")
    assert state.isr == ()
    assert state.elr
    assert update(machine, (ELIGIBLE_LEADERS, 0, SAFE)).error_code == 0
    after = machine.state("t")
    assert (after.elr, after.last_known_elr) == ((), ())
    assert len(after.isr) == 1
    assert after.isr[0] in state.elr


def test_what_is_so_already_writes_nothing() -> None:
    machine = Machine(brokers_up=1)
    length = len(machine.log)
    assert update(machine, ("group.version", 0, UP)).error_code == 0
    assert update(machine, (METADATA_VERSION, 30, UP)).error_code == 0
    assert update(machine, (ELIGIBLE_LEADERS, 0, UP)).error_code == 0
    assert len(machine.log) == length


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (("no.such.feature", 1, UP), "does not know this feature"),
        ((ELIGIBLE_LEADERS, 2, UP), "the controller supports levels 0-1, not 2"),
        ((ELIGIBLE_LEADERS, -1, UNSAFE), "there is no level -1"),
        ((METADATA_VERSION, 0, UNSAFE), "the controller supports levels 30-30, not 0"),
        ((METADATA_VERSION, 31, UP), "the controller supports levels 30-30, not 31"),
        (("group.version", 1, UP), "the controller supports levels 0-0, not 1"),
        ((ELIGIBLE_LEADERS, 1, SAFE), "1 is no downgrade"),
        ((ELIGIBLE_LEADERS, 1, UNSAFE), "1 is no downgrade"),
    ],
)
def test_what_cannot_be_finalised(wanted: tuple[str, int, int], words: str) -> None:
    machine = Machine(brokers_up=1)
    response = update(machine, wanted)
    assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert words in (response.error_message or "")
    assert response.results[0].error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert machine.image.features == {METADATA_VERSION: 1}


def test_a_lower_level_needs_leave() -> None:
    machine = Machine(brokers_up=1, elr=True)
    response = update(machine, (ELIGIBLE_LEADERS, 0, UP))
    assert "a lower one only as a downgrade" in (response.error_message or "")
    assert machine.image.features[ELIGIBLE_LEADERS] == 1
    # As version 0 of the request says it.
    assert update(machine, (ELIGIBLE_LEADERS, 0, UP), allow_downgrade=True).error_code == 0


@pytest.mark.parametrize("is_fenced", [False, True])
def test_no_broker_is_left_behind(is_fenced: bool) -> None:
    """A broker that is away comes back as it was: it counts too."""
    machine = Machine(brokers_up=1)
    old = {METADATA_VERSION: VersionRange(1, 1)}
    machine.come_up(2, features=old)
    if is_fenced:
        machine.fence(2)
    response = update(machine, (ELIGIBLE_LEADERS, 1, UP))
    assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert "broker 2 supports levels 0-0, not 1" in (response.error_message or "")


def test_all_or_none() -> None:
    machine = Machine(brokers_up=1)
    response = update(machine, (ELIGIBLE_LEADERS, 1, UP), ("other", 1, UP))
    assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert (response.error_message or "").startswith("nothing was changed: other: ")
    assert [one.error_code for one in response.results] == [0, ErrorCode.INVALID_UPDATE_VERSION]
    assert ELIGIBLE_LEADERS not in machine.image.features


def test_nothing_happens_where_it_is_only_asked_whether_it_could() -> None:
    machine = Machine(brokers_up=1)
    length = len(machine.log)
    assert update(machine, (ELIGIBLE_LEADERS, 1, UP), validate_only=True).error_code == 0
    assert len(machine.log) == length


@pytest.mark.parametrize(
    "wanted",
    [[(ELIGIBLE_LEADERS, 1, 0)], [(ELIGIBLE_LEADERS, 1, 4)], [(ELIGIBLE_LEADERS, 1, UP)] * 2],
)
def test_what_makes_no_sense(wanted: list[tuple[str, int, int]]) -> None:
    response = update(Machine(brokers_up=1), *wanted)
    assert response.error_code == ErrorCode.INVALID_REQUEST
