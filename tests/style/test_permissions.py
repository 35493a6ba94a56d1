"""Every API that a broker answers says what it asks of a principal, or that it asks nothing."""

from minikafka.broker.api.table import SPOKEN
from minikafka.security.permissions.table import TABLE


def test_every_api_has_a_row_in_the_table_of_permissions() -> None:
    """A broker with an authorizer does not start without it: security/permissions/table.py."""
    assert sorted(TABLE) == sorted(SPOKEN)
