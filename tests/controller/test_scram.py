"""SCRAM credentials at the controller: whose are set, whose are refused, and what is kept."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from minikafka.controller.__main__ import main, prepare
from minikafka.controller.metadata.scram import alter_credentials
from minikafka.controller.server import ControllerServer
from minikafka.protocol.control.image import MetadataImage
from minikafka.protocol.control.records import ScramSecretRecord, decode_record, encode_record
from minikafka.protocol.errors import ErrorCode
from minikafka.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from minikafka.runtime.daemon import Stop
from minikafka.runtime.runtime import SystemRuntime
from minikafka.security.sasl.scram import ScramMechanism, credential_of

from .machine import Machine

SHA_256, SHA_512 = ScramMechanism.SHA_256, ScramMechanism.SHA_512


def setting(
    name: str = "alice", mechanism: int = 1, iterations: int = 4096, size: int = 32
) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name=name,
        mechanism=mechanism,
        iterations=iterations,
        salt=b"salt",
        salted_password=b"p" * size,
    )


def deletion(name: str = "alice", mechanism: int = 1) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=name, mechanism=mechanism)


def alter(
    machine: Machine, *changes: ScramCredentialUpsertion | ScramCredentialDeletion
) -> dict[str, int]:
    request = AlterUserScramCredentialsRequest(
        deletions=[each for each in changes if isinstance(each, ScramCredentialDeletion)],
        upsertions=[each for each in changes if isinstance(each, ScramCredentialUpsertion)],
    )
    decision = alter_credentials(machine.cluster, request, lambda text: text.encode().ljust(16))
    return {each.user: each.error_code for each in machine.carry_out(decision).results}


def test_a_credential_is_kept_without_its_password() -> None:
    machine = Machine()
    assert alter(machine, setting(), setting(mechanism=2, size=64)) == {"alice": 0}
    expected = credential_of(SHA_256, b"p" * 32, b"salt", 4096)
    assert machine.image.scram[1, "alice"] == expected
    assert list(machine.image.scram) == [(1, "alice"), (2, "alice")]
    assert alter(machine, deletion()) == {"alice": 0}
    assert list(machine.image.scram) == [(2, "alice")]


def test_the_secret_for_unknown_users_is_written_once() -> None:
    machine = Machine()
    for name in ("alice", "bob"):
        alter(machine, setting(name))
    assert len([each for each in machine.log if isinstance(each, ScramSecretRecord)]) == 1
    assert len(machine.image.scram_secret) == 32


def test_a_snapshot_keeps_credentials_and_secret() -> None:
    machine = Machine()
    alter(machine, setting(), setting("bob", mechanism=2, size=64))
    again = MetadataImage()
    for offset, record in enumerate(machine.image.to_records()):
        again.apply(decode_record(encode_record(record)), offset)
    assert again.scram == machine.image.scram
    assert again.scram_secret == machine.image.scram_secret
    copied = machine.image.copy()
    alter(machine, deletion())
    assert (1, "alice") in copied.scram


def test_s_18_a_user_named_twice_is_refused_and_the_others_are_set() -> None:
    machine = Machine()
    told = alter(machine, setting(), setting(), setting("bob"), setting("carol"), deletion("carol"))
    assert told == {
        "carol": ErrorCode.DUPLICATE_RESOURCE,
        "alice": ErrorCode.DUPLICATE_RESOURCE,
        "bob": ErrorCode.NONE,
    }
    assert list(machine.image.scram) == [(1, "bob")]


@pytest.mark.parametrize(
    ("iterations", "code"),
    [
        (4095, ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (16_385, ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (4096, ErrorCode.NONE),
        (16_384, ErrorCode.NONE),
    ],
)
def test_s_19_iterations_have_bounds(iterations: int, code: ErrorCode) -> None:
    assert alter(Machine(), setting(iterations=iterations)) == {"alice": code}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (setting(""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (setting("a\0b"), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (setting("a" * 1025), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (setting(mechanism=3), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (setting(size=31), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (setting(mechanism=2), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (deletion(), ErrorCode.RESOURCE_NOT_FOUND),
        (deletion(mechanism=0), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
    ],
)
def test_what_cannot_be_is_refused(
    change: ScramCredentialUpsertion | ScramCredentialDeletion, code: ErrorCode
) -> None:
    machine = Machine()
    length = len(machine.log)
    assert alter(machine, change) == {change.name: code}
    assert len(machine.log) == length


def test_s_55_no_credential_is_shown_when_a_record_or_a_request_is_printed() -> None:
    machine = Machine()
    alter(machine, setting())
    secrets = [*machine.image.scram[1, "alice"][1:3], machine.image.scram_secret, b"p" * 32]
    for shown in (*machine.log, *machine.image.scram.values(), setting()):
        assert not any(repr(secret) in repr(shown) for secret in secrets)


async def test_s_20_a_user_of_the_first_start_is_in_the_log_from_its_first_record_on(
    tmp_path: Path,
) -> None:
    properties = {
        "node.id": "100",
        "controller.quorum.voters": "100@127.0.0.1:9093",
        "listeners": "CONTROLLER://127.0.0.1:0",
        "log.dirs": str(tmp_path / "controller"),
        "control.security": "none",
    }
    runtime = SystemRuntime("controller-100")
    for names in (("carol",), ("dave",)):
        # The second start finds a cluster, which keeps the users it has.
        texts = [f"SCRAM-SHA-256=[name={name},password=pw]" for name in names]
        plan = prepare(properties, add_scram=texts)
        server = await plan.start(runtime, Stop())
        assert isinstance(server, ControllerServer)
        image = server.controller.committed
        assert list(image.scram) == [(1, "carol")]
        assert len(image.scram_secret) == 32
        await server.stop()
    known = image.scram[1, "carol"]
    salted = SHA_256.salted("pw", known.salt, known.iterations)
    assert known == credential_of(SHA_256, salted, known.salt, 4096)


def test_a_wrong_user_of_the_first_start_ends_the_command_with_one_line() -> None:
    given = [f"--override={key}" for key in ("node.id=100", "log.dirs=x")]
    given.append("--override=controller.quorum.voters=100@127.0.0.1:9093")
    ended = CliRunner().invoke(main, [*given, "--add-scram", "SCRAM-SHA-256=[password=hunter2]"])
    assert (ended.exit_code, ended.output) == (
        2,
        "minikafka-controller: --add-scram: needs a name\n",
    )
