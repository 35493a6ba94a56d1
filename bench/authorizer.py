"""What a decision of the authorizer costs, beside the number of entries that it knows.

In this process and without a broker: the fastest of many short rounds, as the machine does other
things too. Cold is a decision about a resource that the connection has not asked for since an entry
changed, cached is any later one.
"""

import time
from typing import NamedTuple

from minikafka.protocol.acls import Acl, Operation, Pattern, Permission, Resource
from minikafka.protocol.control.image import Delta, MetadataImage
from minikafka.runtime.config import from_mapping
from minikafka.security.authorizer import Authorizer
from minikafka.security.authorizer_config import AuthorizerConfig
from minikafka.security.principal import user

ENTRIES = (100, 1_000, 10_000)
ROUNDS, ASKED = 30, 200
COLD_MOST_US, CACHED_MOST_US = 20.0, 1.0
"""What a decision may cost with 10,000 entries."""
ALICE, HOST = user("alice"), "10.0.0.9"


class Cost(NamedTuple):
    """Microseconds of one decision."""

    entries: int
    cold_us: float
    cached_us: float


def entry(number: int) -> Acl:
    """Make an entry: of five, two by name, two by prefixes of many lengths, one for every topic."""
    kind, name, who = number % 5, f"team-{number % 97}.topic-{number}", f"User:user-{number % 50}"
    pattern = Pattern.PREFIXED if kind in (2, 3) else Pattern.LITERAL
    if pattern is Pattern.PREFIXED:
        name = name[: 4 + number % 12] + str(number)[: number % 4]
    elif kind == 4 and number % 100 == 4:
        name, who = "*", f"User:user-{number}"
    permission = Permission.DENY if number % 7 == 0 else Permission.ALLOW
    return Acl(Resource.TOPIC, name, pattern, who, "*", Operation.READ, permission)


def authorizer_of(count: int) -> Authorizer:
    """Make an authorizer that knows so many entries, some of them of alice."""
    made = Authorizer(from_mapping(AuthorizerConfig, {}))
    acls = dict.fromkeys(map(entry, range(count)))
    for number in range(count // 10):
        name, allow = f"team-{number % 97}.topic-{number}", Permission.ALLOW
        one = Acl(Resource.TOPIC, name, Pattern.LITERAL, str(ALICE), "*", Operation.ALL, allow)
        acls[one] = None
    image = MetadataImage(acls={str(at).encode(): acl for at, acl in enumerate(acls)})
    made.on_metadata(Delta(is_snapshot=True), image)
    return made


def measure(count: int) -> Cost:
    """Measure decisions about many topics, each cold once and cached in the rounds after it."""
    authorizer = authorizer_of(count)
    names = [f"team-{number % 97}.topic-{number}" for number in range(ASKED)]
    cold = cached = float("inf")
    for _ in range(ROUNDS):
        rights = authorizer.rights_of(ALICE, HOST)
        cold = min(cold, _round(rights.may, names))
        cached = min(cached, _round(rights.may, names))
    return Cost(count, cold, cached)


def _round(may: object, names: list[str]) -> float:
    assert callable(may)
    began = time.perf_counter_ns()
    for name in names:
        may(Operation.READ, Resource.TOPIC, name)
    return (time.perf_counter_ns() - began) / len(names) / 1000
