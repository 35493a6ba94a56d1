"""The text form of a principal, which ACLs, logs and forwarded requests share."""

from minikafka.security.principal import ANONYMOUS, Principal


def test_a_principal_is_told_as_its_type_and_name() -> None:
    assert str(ANONYMOUS) == "User:ANONYMOUS"
    assert str(Principal("User", "CN=a,O=b:c")) == "User:CN=a,O=b:c"


def test_principals_whose_names_differ_in_case_are_different() -> None:
    assert Principal("User", "alice") != Principal("User", "Alice")
