"""The authorizer: Kafka's rule, against an oracle that reads every entry in Kafka's order."""

from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.protocol.acls import OPERATIONS, Acl, Operation, Pattern, Permission, Resource
from minikafka.protocol.control.image import Delta, MetadataImage
from minikafka.runtime.config import from_mapping
from minikafka.runtime.errors import ConfigError
from minikafka.security.acl_index import AclIndex, keys_of
from minikafka.security.authorizer import Authorizer
from minikafka.security.authorizer_config import STANDARD, AuthorizerConfig
from minikafka.security.principal import ANONYMOUS, Principal, user

ALICE, BOB = user("alice"), user("bob")
HOST = "10.0.0.9"
TOPIC = Resource.TOPIC


def acl(
    name: str,
    operation: Operation = Operation.READ,
    *,
    who: str = "User:alice",
    pattern: Pattern = Pattern.LITERAL,
    deny: bool = False,
    host: str = "*",
) -> Acl:
    permission = Permission.DENY if deny else Permission.ALLOW
    return Acl(TOPIC, name, pattern, who, host, operation, permission)


def authorizer_of(*acls: Acl, **given: str) -> Authorizer:
    settings = {key.replace("_", "."): value for key, value in given.items()}
    made = Authorizer(from_mapping(AuthorizerConfig, settings))
    change(made, new=acls)
    return made


def change(authorizer: Authorizer, new: Iterable[Acl] = (), gone: Iterable[Acl] = ()) -> None:
    delta = Delta()
    delta.new_acls = {repr(each).encode(): each for each in new}
    delta.deleted_acls = {repr(each).encode(): each for each in gone}
    authorizer.on_metadata(delta, MetadataImage())


def may(
    authorizer: Authorizer,
    operation: Operation,
    name: str,
    principal: Principal = ALICE,
    host: str = HOST,
) -> bool:
    return authorizer.rights_of(principal, host).may(operation, TOPIC, name)


def test_s_27_a_super_user_may_do_what_is_denied_to_everybody() -> None:
    denied = acl("t", Operation.ALL, who="User:*", deny=True)
    authorizer = authorizer_of(denied, super_users="User:alice; User:CN=a,O=b")
    assert may(authorizer, Operation.READ, "t")
    assert may(authorizer, Operation.READ, "t", user("CN=a,O=b"))
    assert not may(authorizer, Operation.READ, "t", BOB)


def test_s_28_denying_to_read_wins_and_leaves_describing_alone() -> None:
    authorizer = authorizer_of(acl("t", deny=True), acl("*", Operation.ALL))
    assert not may(authorizer, Operation.READ, "t")
    assert may(authorizer, Operation.DESCRIBE, "t")
    assert may(authorizer, Operation.READ, "u")


def test_s_29_an_entry_for_anybody_ends_the_default_for_that_resource() -> None:
    of_bob = acl("a", who="User:bob")
    authorizer = authorizer_of(of_bob, allow_everyone_if_no_acl_found="true")
    assert not may(authorizer, Operation.READ, "a")
    assert may(authorizer, Operation.WRITE, "b")
    change(authorizer, new=[acl("*", Operation.ALTER, who="User:bob")])
    assert not may(authorizer, Operation.WRITE, "b")


def test_s_30_a_prefix_covers_names_that_begin_with_it() -> None:
    authorizer = authorizer_of(acl("foo", pattern=Pattern.PREFIXED))
    found = {name: may(authorizer, Operation.READ, name) for name in ("foo", "foobar", "fo", "Foo")}
    assert found == {"foo": True, "foobar": True, "fo": False, "Foo": False}


@pytest.mark.parametrize(
    ("operation", "implied"),
    [
        (Operation.READ, Operation.DESCRIBE),
        (Operation.WRITE, Operation.DESCRIBE),
        (Operation.DELETE, Operation.DESCRIBE),
        (Operation.ALTER, Operation.DESCRIBE),
        (Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS),
        (Operation.CREATE, None),
        (Operation.DESCRIBE, None),
        (Operation.DESCRIBE_CONFIGS, None),
    ],
)
def test_an_operation_implies_only_to_describe(
    operation: Operation, implied: Operation | None
) -> None:
    rights = authorizer_of(acl("t", operation)).rights_of(ALICE, HOST)
    allowed = [each for each in OPERATIONS[TOPIC] if rights.may(each, TOPIC, "t")]
    assert sorted(allowed) == sorted({operation, implied or operation})


def test_one_of_two_entries_removed_leaves_the_resource_covered() -> None:
    """As CVE-2024-27309 was: with the last but one entry gone, all were let in."""
    first, second = acl("t", who="User:bob"), acl("t", Operation.WRITE, who="User:bob")
    authorizer = authorizer_of(first, second, allow_everyone_if_no_acl_found="true")
    change(authorizer, gone=[first])
    assert not may(authorizer, Operation.READ, "t")
    assert may(authorizer, Operation.WRITE, "t", BOB)
    assert not may(authorizer, Operation.READ, "t", BOB)
    change(authorizer, gone=[second])
    assert may(authorizer, Operation.READ, "t")


def test_a_decision_is_forgotten_when_an_entry_changes() -> None:
    entry = acl("t")
    authorizer = authorizer_of(entry)
    rights = authorizer.rights_of(ALICE, HOST)
    assert rights.may(Operation.READ, TOPIC, "t")
    change(authorizer, gone=[entry])
    assert not rights.may(Operation.READ, TOPIC, "t")
    assert rights.told_operations(TOPIC, "t") == 0


def test_a_client_with_long_names_fills_no_memory() -> None:
    rights = authorizer_of(acl("t", pattern=Pattern.PREFIXED)).rights_of(ALICE, HOST)
    for number in range(3):
        assert rights.may(Operation.READ, TOPIC, f"t{number}" + "x" * 32_000)
    assert rights.may(Operation.READ, TOPIC, "t")
    assert list(rights._known) == [(TOPIC, "t")]


def test_a_snapshot_replaces_all_entries() -> None:
    authorizer = authorizer_of(acl("old"))
    image = MetadataImage(acls={b"1": acl("new")})
    authorizer.on_metadata(Delta(is_snapshot=True), image)
    assert not may(authorizer, Operation.READ, "old")
    assert may(authorizer, Operation.READ, "new")


def test_hosts_are_compared_as_addresses_in_any_spelling() -> None:
    long = "0:0:0:0:0:0:0:1"
    authorizer = authorizer_of(acl("t", host="127.0.0.1"), acl("u", host=long))
    assert may(authorizer, Operation.READ, "t", host="127.0.0.1")
    assert not may(authorizer, Operation.READ, "t", host="::1")
    assert may(authorizer, Operation.READ, "u", host="::1")


def test_one_of_two_spellings_of_a_host_can_go() -> None:
    """The entry that is left goes on to deny, and can be removed too."""
    spellings = ("::1", "0:0:0:0:0:0:0:1", "0::1")
    denied = [acl("t", who="User:*", deny=True, host=host) for host in spellings]
    authorizer = authorizer_of(*denied, acl("t"))
    for each in denied:
        assert not may(authorizer, Operation.READ, "t", host="::1")
        change(authorizer, gone=[each])
    assert may(authorizer, Operation.READ, "t", host="::1")


def test_super_users_must_be_principals_and_the_class_must_be_known() -> None:
    for key, value, words in (
        ("super.users", "alice;User:b", "'alice' is no principal"),
        ("authorizer.class.name", "com.example.Mine", "must be one of"),
    ):
        with pytest.raises(ConfigError, match=words):
            from_mapping(AuthorizerConfig, {key: value})
    assert from_mapping(AuthorizerConfig, {"authorizer.class.name": STANDARD}).class_name


# Against an oracle.

NAMES = ("a", "ab", "abc", "b", "*", "hardcode", "hard")
PRINCIPALS = ("User:alice", "User:bob", "User:*")
HOSTS = ("*", HOST, "10.0.0.8", "::1", "0:0:0:0:0:0:0:1")
OPS = (
    Operation.ALL,
    Operation.READ,
    Operation.WRITE,
    Operation.DESCRIBE,
    Operation.ALTER_CONFIGS,
    Operation.DESCRIBE_CONFIGS,
)
ACLS = st.builds(
    Acl,
    st.sampled_from((Resource.TOPIC, Resource.GROUP)),
    st.sampled_from(NAMES),
    st.sampled_from((Pattern.LITERAL, Pattern.PREFIXED)),
    st.sampled_from(PRINCIPALS),
    st.sampled_from(HOSTS),
    st.sampled_from(OPS),
    st.sampled_from(tuple(Permission)),
)


def implied(operation: Operation) -> tuple[Operation, ...]:
    if operation is Operation.DESCRIBE:
        return (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER)
    return (Operation.ALTER_CONFIGS,) if operation is Operation.DESCRIBE_CONFIGS else ()


def concerns(entry: Acl, principal: Principal, host: str) -> bool:
    return entry.principal in (str(principal), "User:*") and entry.host in (host, "*")


def covers(entry: Acl, resource_type: int, name: str) -> bool:
    if entry.resource_type != resource_type:
        return False
    if entry.pattern_type == Pattern.PREFIXED:
        return name.startswith(entry.resource_name)
    return entry.resource_name in (name, "*")


def naive(acls: Sequence[Acl], operation: Operation, name: str, who: Principal) -> bool | None:
    """Read all the entries, as Kafka's StandardAuthorizerData does; None: no entry covers it."""
    covering = [each for each in acls if covers(each, TOPIC, name)]
    mine = [each for each in covering if concerns(each, who, HOST)]
    exact = (operation, Operation.ALL)
    if any(each.permission == Permission.DENY and each.operation in exact for each in mine):
        return False
    if any(
        each.permission == Permission.ALLOW and each.operation in (*exact, *implied(operation))
        for each in mine
    ):
        return True
    return False if covering else None


def naive_any(acls: Sequence[Acl], operation: Operation, who: Principal) -> bool:
    """As Kafka's Authorizer.authorizeByResourceType, whose probe is a topic named `hardcode`."""
    if naive(acls, operation, "hardcode", who):
        return True
    mine = [
        each
        for each in acls
        if each.resource_type == TOPIC
        and concerns(each, who, HOST)
        and each.operation in (operation, Operation.ALL)
    ]
    denied = [each for each in mine if each.permission == Permission.DENY]
    allowed = [each for each in mine if each.permission == Permission.ALLOW]
    literal = Pattern.LITERAL
    if any(each.pattern_type == literal and each.resource_name == "*" for each in denied):
        return False
    for entry in allowed:
        name, kind = entry.resource_name, entry.pattern_type
        if kind == literal and name == "*":
            return True
        same = any(d.pattern_type == kind == literal and d.resource_name == name for d in denied)
        prefixed = any(
            d.pattern_type == Pattern.PREFIXED and name.startswith(d.resource_name) for d in denied
        )
        if not (same or prefixed):
            return True
    return False


@given(st.lists(ACLS, unique=True, max_size=14), st.data())
@settings(max_examples=300)
def test_the_index_decides_as_reading_all_does(acls: list[Acl], data: st.DataObject) -> None:
    gone = data.draw(st.lists(st.sampled_from(acls), unique=True)) if acls else []
    authorizer = authorizer_of(*acls)
    change(authorizer, gone=gone)
    left = [each for each in acls if each not in gone]
    for who in (ALICE, BOB, ANONYMOUS):
        rights = authorizer.rights_of(who, HOST)
        for name in (*NAMES, "abcd", "z"):
            for operation in Operation:
                told = rights.may(operation, TOPIC, name)
                if operation is not Operation.ALL:
                    assert told is bool(naive(left, operation, name, who)), (who, name, operation)
        assert rights.may_any(Operation.WRITE, TOPIC) is naive_any(left, Operation.WRITE, who)


@given(st.lists(ACLS, unique=True, max_size=14))
def test_an_index_that_is_emptied_covers_nothing(acls: list[Acl]) -> None:
    index = AclIndex()
    for each in acls:
        index.add(each)
    for each in reversed(acls):
        index.remove(each)
    keys = keys_of("User:alice", HOST)
    assert all(index.operations(keys, TOPIC, name) is None for name in NAMES)
    assert not index.may_any(keys, Operation.READ, TOPIC)
