"""FindCoordinator: find the broker that coordinates groups or transactions (KIP-699: many keys)."""

from enum import IntEnum

from ..api import ApiKey
from ..schema import Int8, Int16, Int32, String, field, nested, request, response

NO_NODE = -1
"""The `node_id` in an answer that has an error."""


class CoordinatorType(IntEnum):
    """The kinds of keys that have a coordinator."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


@request(ApiKey.FIND_COORDINATOR, versions="0-6", flexible="3+")
class FindCoordinatorRequest:
    """Ask for the coordinators of some keys, all of one kind."""

    key: String = field("0-3", default="")
    key_type: Int8 = field("1+", default=CoordinatorType.GROUP)
    """The kind of the keys: a CoordinatorType."""
    coordinator_keys: list[String] = field("4+", default=[])


@nested
class Coordinator:
    """The coordinator of one key."""

    key: String
    node_id: Int32 = field(default=NO_NODE)
    host: String = field(default="")
    port: Int32 = field(default=-1)
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default=None)


@response(ApiKey.FIND_COORDINATOR)
class FindCoordinatorResponse:
    """One item for each key; up to version 3 the response itself has the fields of the one item."""

    throttle_time_ms: Int32 = field("1+", default=0)
    error_code: Int16 = field("0-3", default=0)
    error_message: String | None = field("1-3", nullable="1-3", default="")
    node_id: Int32 = field("0-3", default=0)
    host: String = field("0-3", default="")
    port: Int32 = field("0-3", default=0)
    coordinators: list[Coordinator] = field("4+", default=[])
