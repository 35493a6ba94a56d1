"""`client-metrics`: what it changes, what it prints, and which flags exclude each other."""

import pytest

from minikafka.client.admin.config_types import ConfigResource
from minikafka.protocol.types import uuid_from_text

from .conftest import Run
from .fake_admin import FakeAdmin

AT = ("client-metrics", "--bootstrap-server", "localhost:9092")
APP, ALL = ConfigResource.client_metrics("app"), ConfigResource.client_metrics("all")


@pytest.fixture
def cluster(admin: FakeAdmin) -> FakeAdmin:
    admin.configs = {APP: {"metrics": "a,b", "match": "client_id=x"}, ALL: {"metrics": "*"}}
    return admin


def test_a_subscription_is_made_and_changed(run: Run, cluster: FakeAdmin) -> None:
    flags = ("--name", "new", "--interval", "100", "--metrics", "a,b", "--match", "client_id=x")
    assert run(*AT, "--alter", *flags) == (0, "Altered client metrics config for new.\n", "")
    made = ConfigResource.client_metrics("new")
    assert cluster.configs[made] == {"interval.ms": "100", "metrics": "a,b", "match": "client_id=x"}
    run(*AT, "--alter", "--name", "new", "--interval", "200", "--match", "")
    assert cluster.configs[made] == {"interval.ms": "200", "metrics": "a,b"}


def test_a_name_is_made_up(run: Run, cluster: FakeAdmin) -> None:
    code, out, _ = run(*AT, "--alter", "--generate-name", "--metrics", "*")
    (name,) = (each.name for each in cluster.configs if each not in (APP, ALL))
    assert (code, out) == (0, f"Altered client metrics config for {name}.\n")
    assert len(uuid_from_text(name)) == 16


def test_a_subscription_is_deleted(run: Run, cluster: FakeAdmin) -> None:
    done = run(*AT, "--delete", "--name", "app")
    assert done == (0, "Deleted client metrics config for app.\n", "")
    assert cluster.configs[APP] == {}
    assert run(*AT, "--list") == (0, "all\n", "")


def test_one_or_all_are_described(run: Run, cluster: FakeAdmin) -> None:
    of_app = (
        "Client metrics configs for app are:\n"
        "  interval.ms=300000\n  match=client_id=x\n  metrics=a,b\n"
    )
    of_all = "Client metrics configs for all are:\n  interval.ms=300000\n  match=\n  metrics=*\n"
    assert run(*AT, "--describe", "--name", "app") == (0, of_app, "")
    assert run(*AT, "--describe") == (0, of_all + of_app, "")
    assert run(*AT, "--list") == (0, "all\napp\n", "")
    none = "The client metric resource x doesn't exist and doesn't have dynamic config.\n"
    assert run(*AT, "--describe", "--name", "x") == (0, none, "")


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        ((), "exactly one action"),
        (("--list", "--describe"), "exactly one action"),
        (("--list", "--name", "a"), "--name does not belong to --list"),
        (("--describe", "--interval", "100"), "--interval does not belong to --describe"),
        (("--delete", "--name", "a", "--generate-name"), "--generate-name does not belong"),
        (("--delete",), "must be specified with --delete"),
        (("--alter", "--metrics", "*"), "One of --name or --generate-name"),
        (("--alter", "--name", "a", "--generate-name"), "One of --name or --generate-name"),
    ],
)
def test_flags_that_do_not_fit_are_refused(
    run: Run, cluster: FakeAdmin, flags: tuple[str, ...], why: str
) -> None:
    code, out, err = run(*AT, *flags)
    assert (code, out) == (2, "")
    assert why in err
    assert not cluster.asked
