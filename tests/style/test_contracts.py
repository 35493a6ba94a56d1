"""The contracts between rooms in pyproject.toml bite: an import planted against each breaks it.

`lint-imports` holds them for the code as it is; here they are held against what nobody has written.
"""

from copy import deepcopy
from pathlib import Path
from typing import Any

import grimp
import pytest
from importlinter.api import read_configuration
from importlinter.contracts.forbidden import ForbiddenContract
from importlinter.contracts.layers import LayersContract

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
KINDS: dict[str, Any] = {"forbidden": ForbiddenContract, "layers": LayersContract}
CONFIGURATION = read_configuration(str(PYPROJECT))
CONTRACTS: list[dict[str, Any]] = CONFIGURATION["contracts_options"]


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph("minikafka", include_external_packages=True, cache_dir=None)


def broken(graph: grimp.ImportGraph, importer: str, imported: str) -> list[str]:
    """The contracts that this import would break."""
    session = {**CONFIGURATION["session_options"], "root_packages": ["minikafka"]}
    found = []
    for options in CONTRACTS:
        planted = deepcopy(graph)
        planted.add_import(importer=importer, imported=imported)
        contract = KINDS[options["type"]](options["name"], session, options)
        if not contract.check(planted, verbose=False).kept:
            found.append(options["name"])
    return found


PLANTED = [
    ("storage.log", "minikafka.controller.leases", "Rooms import downwards only"),
    (
        "broker.partition.reading",
        "minikafka.broker.replication.fetcher",
        "Rooms of broker import downwards only",
    ),
    ("broker.net.outbox", "minikafka.broker.api.fetch", "Rooms of broker import downwards only"),
    (
        "broker.replica.leader",
        "minikafka.broker.deadlines",
        "Rooms of broker import downwards only",
    ),
    (
        "broker.coordinator.group.state",
        "minikafka.broker.coordinator.shard",
        "Groups and transactions know no driver",
    ),
    (
        "broker.coordinator.transaction.ledger",
        "minikafka.broker.deadlines",
        "Groups and transactions know no driver",
    ),
    ("protocol.codec", "asyncio", "protocol is pure"),
    (
        "protocol.codec",
        "minikafka.runtime.runtime",
        "protocol takes only errors and configuration from runtime",
    ),
    ("broker.peers", "minikafka.client.admin", "broker and controller use only client.net"),
    ("controller.liveness", "minikafka.client.errors", "broker and controller use only client.net"),
    ("client.net.pool", "minikafka.client.metadata", "client.net uses nothing else of client"),
]


@pytest.mark.parametrize(("importer", "imported", "contract"), PLANTED)
def test_a_planted_import_breaks_its_contract(
    graph: grimp.ImportGraph, importer: str, imported: str, contract: str
) -> None:
    assert broken(graph, f"minikafka.{importer}", imported) == [contract]


def test_an_import_is_planted_against_every_contract() -> None:
    assert {contract for _, _, contract in PLANTED} == {options["name"] for options in CONTRACTS}
