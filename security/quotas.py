"""Client quotas as they are enforced: which one holds for a client, and its bucket of tokens.

Pure. A quota gives a rate. Its bucket fills at that rate, up to some seconds' worth, and each
request takes out what it costs. It may take more than there is: the bucket is then in debt, and the
client has to wait until time has paid the debt. So in the long run no client exceeds its rate by
more than one full bucket and one request. Each step is O(1).
"""

from collections.abc import Iterator, Mapping, Sequence
from math import ceil, inf
from typing import Final, NamedTuple

from ..protocol.control.image import Delta, MetadataImage
from ..protocol.quotas import CLIENT_ID, USER, QuotaEntity

MOST_BUCKETS: Final = 10_000
"""Clients choose their ids, so the number of buckets is bounded."""
CLIENT_ID_MAX: Final = 256
"""The first characters of a client id, by which buckets are told apart; an id may have 32 KiB."""
IDLE_MS: Final = 3_600_000
"""A bucket that was not used for this long is forgotten."""
LOOKED_AT: Final = 8
"""How many buckets are compared: the one of them unused for longest makes room for a new one."""
THROTTLE_MAX_MS: Final = (1 << 31) - 1
"""The longest time that fits into a response."""
RATE_MAX: Final = 2.0**63
"""The most tokens per second of a bucket. A larger quota limits nobody, but a full bucket of it
might be infinite."""


class Kind(NamedTuple):
    """How one of Kafka's quotas is enforced."""

    key: str
    full_s: int
    """The seconds' worth of tokens that a bucket holds."""
    first_s: int
    """The seconds' worth of tokens with which a new bucket begins."""
    scale: int = 1
    """The tokens per second that a quota of 1 gives."""
    throttle_max_ms: int = THROTTLE_MAX_MS
    debt_max_s: float = inf
    """The seconds' worth of tokens that a client may owe; what is beyond is forgotten."""


PRODUCE: Final = Kind("producer_byte_rate", 10, 1)
"""Tokens are bytes of Produce requests."""
FETCH: Final = Kind("consumer_byte_rate", 10, 1)
"""Tokens are bytes of records fetched."""
REQUEST: Final = Kind("request_percentage", 10, 1, 10_000, throttle_max_ms=1_000, debt_max_s=10)
"""Tokens are microseconds of the event loop. As in Kafka, a throttle time is a second at most, and
time used more than some ten seconds ago is forgotten."""
MUTATION: Final = Kind("controller_mutation_rate", 11, 11)
"""Tokens are partitions created or deleted (KIP-599)."""


PENDING: Final = "pending_records"
"""Not a quota of a client: so many records of a delay topic wait that its producers slow down."""


class Bucket:
    """The tokens of one entity, which is in debt if they are below 0."""

    __slots__ = ("_rate", "kind", "last_ms", "tokens")

    def __init__(self, kind: Kind, quota: float, now_ms: int) -> None:
        """`quota` is the quota's value; times are monotonic."""
        self.kind = kind
        self._rate = _rate_of(quota, kind)
        self.last_ms = now_ms
        """The time at which the bucket was last used."""
        self.tokens = self._rate * kind.first_s
        """The tokens at that time."""

    @property
    def size(self) -> float:
        """The tokens that the full bucket holds."""
        return self._rate * self.kind.full_s

    def take(self, count: float, now_ms: int) -> int:
        """Take tokens, and return the milliseconds for which the client must then wait."""
        self.tokens = max(self._tokens_at(now_ms) - count, -self._rate * self.kind.debt_max_s)
        self.last_ms = max(self.last_ms, now_ms)
        return self.wait_ms(now_ms)

    def wait_ms(self, now_ms: int) -> int:
        """Return the milliseconds until the debt is paid, at most what the kind allows; 0 if none.

        At least 1 if there is a debt.
        """
        tokens = self._tokens_at(now_ms)
        if tokens >= 0:
            return 0
        return ceil(min(-tokens * 1000 / self._rate, self.kind.throttle_max_ms))

    def set_quota(self, quota: float, now_ms: int) -> None:
        """Change the rate; tokens beyond the new size are lost, a debt stays."""
        self.take(0, now_ms)
        self._rate = _rate_of(quota, self.kind)
        self.tokens = min(self.tokens, self.size)

    def _tokens_at(self, now_ms: int) -> float:
        passed_ms = max(now_ms - self.last_ms, 0)
        return min(self.tokens + self._rate * passed_ms / 1000, self.size)


def _rate_of(quota: float, kind: Kind) -> float:
    return min(quota * kind.scale, RATE_MAX)


class Owner(NamedTuple):
    """The entity that a bucket belongs to: a user, a client id, or both together."""

    key: str
    user: str | None
    client_id: str | None


class Quotas:
    """The quotas that a node enforces, and the buckets of all clients that have some."""

    def __init__(self, kinds: Sequence[Kind]) -> None:
        """`kinds` are the quotas that this node enforces."""
        self._kinds = tuple(kinds)
        self._buckets: dict[Owner, Bucket] = {}
        self.entities: Mapping[QuotaEntity, Mapping[str, float]] | None = None
        """The quotas of each entity; None if there are none, so that requests skip all this."""
        self.throttled = {kind.key: 0 for kind in (PRODUCE, FETCH, REQUEST, MUTATION)}
        self.throttled[PENDING] = 0
        """By quota, how often a client had to wait."""
        self.epoch = 0
        """A number that grows with each change. What `of` returned is old when it has grown."""

    def __len__(self) -> int:
        return len(self._buckets)

    def on_metadata(self, delta: Delta, image: MetadataImage) -> None:
        """Apply the changes of quotas in `delta`; `image` is the metadata after them."""
        if not delta.touches_quotas:
            return
        keys = [kind.key for kind in self._kinds]
        entities = {
            entity: values
            for entity, values in image.quotas.items()
            if any(key in values for key in keys)
        }
        self.entities = entities or None
        self.epoch += 1

    def note(self, key: str) -> None:
        """Count that a client has to wait because of this quota, for the metrics."""
        self.throttled[key] += 1

    def in_debt(self, now_ms: int) -> Iterator[tuple[Owner, int]]:
        """Yield the owner of each bucket that is in debt, and for how many ms it will be."""
        for owner, bucket in self._buckets.items():
            if wait_ms := bucket.wait_ms(now_ms):
                yield owner, wait_ms

    def of(self, user: str, client_id: str | None, now_ms: int) -> tuple[Bucket | None, ...]:
        """Return the bucket of each kind for a client; None where it has no quota.

        The most specific quota that is set holds. It is never added to others. A default gives each
        user or client id a bucket of its own.
        """
        return tuple(self._bucket(kind, user, client_id or "", now_ms) for kind in self._kinds)

    def _bucket(self, kind: Kind, user: str, client_id: str, now_ms: int) -> Bucket | None:
        found = self._find(kind.key, user, client_id)
        if found is None:
            return None
        quota, owner = found
        bucket = self._buckets.pop(owner, None)
        if bucket is None:
            self._make_room(now_ms)
            bucket = Bucket(kind, quota, now_ms)
        else:
            bucket.set_quota(quota, now_ms)
        self._buckets[owner] = bucket
        return bucket

    def _find(self, key: str, user: str, client_id: str) -> tuple[float, Owner] | None:
        """Return the quota that holds for a client, and the owner of its bucket; None for none."""
        entities = self.entities or {}
        for entity, owner in _levels(key, user, client_id):
            values = entities.get(entity)
            if values is not None and key in values:
                return values[key], owner
        return None

    def _make_room(self, now_ms: int) -> None:
        """Forget idle buckets among the first, and if there are too many, the idlest of these."""
        first = [owner for owner, _ in zip(self._buckets, range(LOOKED_AT), strict=False)]
        idle = [owner for owner in first if now_ms - self._buckets[owner].last_ms > IDLE_MS]
        if len(self._buckets) >= MOST_BUCKETS and not idle:
            idle = [min(first, key=lambda owner: self._buckets[owner].last_ms)]
        for owner in first:
            # What stays goes to the end, so that the next call looks at others.
            bucket = self._buckets.pop(owner)
            if owner not in idle:
                self._buckets[owner] = bucket


def _levels(key: str, user: str, client_id: str) -> Iterator[tuple[QuotaEntity, Owner]]:
    """Yield the entities whose quota may hold for a client, first the one that wins (KIP-55).

    With each comes the owner of the bucket, which is concrete also for a default.
    """
    shown = client_id[:CLIENT_ID_MAX]
    both = Owner(key, user, shown)
    of_user, of_client = Owner(key, user, None), Owner(key, None, shown)
    for name in (user, None):
        yield ((CLIENT_ID, client_id), (USER, name)), both
        yield ((CLIENT_ID, None), (USER, name)), both
        yield ((USER, name),), of_user
    yield ((CLIENT_ID, client_id),), of_client
    yield ((CLIENT_ID, None),), of_client
