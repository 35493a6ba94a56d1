"""The rules that make a principal of a certificate's subject."""

import pytest

from minikafka.runtime.errors import ConfigError
from minikafka.security.principal_mapping import PrincipalMapping

DN = "CN=Broker-1.example.org,OU=ServiceUsers,O=Org,C=DE"


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ("DEFAULT", DN),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", "Broker-1.example.org"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L", "broker-1.example.org"),
        ("RULE:^CN=([^.]*).*,C=(\\w+)$/$2-$1/U", "DE-BROKER-1"),
        ("RULE:^CN=nobody$/x/, RULE:^.*$/any/ ,DEFAULT", "any"),
        ("RULE:^CN=nobody$/x/,DEFAULT,", DN),
        ("RULE:CN=.*/a\\/b\\$1/", "a/b$1"),
        ("RULE:^OU=.*$/x/", None),
        ("RULE:CN=Broker/part/", None),
    ],
)
def test_the_first_rule_that_matches_the_whole_subject_decides(
    rules: str, name: str | None
) -> None:
    assert PrincipalMapping(rules).name_of(DN) == name


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        ("", "has no rule"),
        ("default", "is neither DEFAULT nor RULE"),
        ("RULE:a/b", "is neither DEFAULT nor RULE"),
        ("RULE:a/b/X", "is neither DEFAULT nor RULE"),
        ("RULE:(?=a)b/c/", "look-around"),
        ("RULE:(a)/$2/", r"\$2: '\(a\)' has 1 groups"),
        (f"RULE:{'a' * 1025}/b/", "at most 1024 characters"),
    ],
)
def test_a_rule_that_is_none_is_refused(rules: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        PrincipalMapping(rules)
