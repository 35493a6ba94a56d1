"""The other proxies: who owns a consumer instance, and the one hop to its owner.

An instance id begins with a digest of its owner's URL. Only URLs of our own list are asked, so that
an id made up by a client leads nowhere.
"""

import hashlib
from collections.abc import Mapping
from typing import Final, NamedTuple

import aiohttp

from ...runtime.runtime import Runtime
from .errors import KAFKA_RETRIABLE, RestError

FORWARDED: Final = "x-minikafka-forwarded"
"""The header of a request that has had its hop."""
CONNECT_S: Final = 2
ANSWER_S: Final = 75
"""The most seconds for an answer; a read waits for 60 at most."""
MOST_HOPS: Final = 128
"""The most requests that are on their hop at a time; others wait, within ANSWER_S."""
_PASSED_ON: Final = ("authorization", "content-type", "accept")
_DIGITS: Final = 12


class Forwarded(NamedTuple):
    """The owner's answer."""

    status: int
    content_type: str
    body: bytes


def owner_of(url: str) -> str:
    """Return the name that ids of this proxy's instances begin with."""
    return hashlib.sha256(url.rstrip("/").encode()).hexdigest()[:_DIGITS]


class Peers:
    """The proxies that know each other, this one among them."""

    def __init__(self, advertised: str, peers: tuple[str, ...], runtime: Runtime) -> None:
        """`advertised` is this proxy's URL as the others reach it, `peers` are the others'."""
        self._owner = owner_of(advertised)
        self._rng = runtime.rng
        self._urls = {owner_of(url): url.rstrip("/") for url in peers}
        self._urls.pop(self._owner, None)
        self._session: aiohttp.ClientSession | None = None

    def new_id(self) -> str:
        """Return the id of a new instance of this proxy."""
        return f"{self._owner}.{self._rng.getrandbits(128):032x}"

    def urls_for(self, instance_id: str) -> list[str]:
        """Return whom to ask for an instance that is not here.

        It is the owner that its id names, or nobody if that is us; for a name that a client chose,
        everybody.
        """
        owner, dot, rest = instance_id.partition(".")
        if dot and len(rest) == 32 and len(owner) == _DIGITS:
            return [self._urls[owner]] if owner in self._urls else []
        return list(self._urls.values())

    async def ask(
        self, url: str, method: str, target: str, headers: Mapping[str, str], body: bytes
    ) -> Forwarded | None:
        """Send a request on to another proxy; return None if that one is away.

        Raise RestError if it is there and does not answer within ANSWER_S.
        """
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=ANSWER_S, sock_connect=CONNECT_S)
            # A kept connection may have ended just now, which would look like a peer that is away.
            connector = aiohttp.TCPConnector(force_close=True, limit=MOST_HOPS)
            self._session = aiohttp.ClientSession(
                timeout=timeout, connector=connector, auto_decompress=False
            )
        passed = {name: headers[name] for name in _PASSED_ON if name in headers}
        try:
            async with self._session.request(
                method,
                url + target,
                headers={**passed, FORWARDED: "1"},
                data=body or None,
                allow_redirects=False,
                skip_auto_headers=("Content-Type",),
            ) as answer:
                kind = answer.headers.get("content-type", "")
                return Forwarded(answer.status, kind, await answer.read())
        except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError):
            return None
        except TimeoutError:
            why = f"The proxy that has this instance did not answer within {ANSWER_S} s."
            raise RestError(KAFKA_RETRIABLE, why) from None
        except aiohttp.ClientError as error:
            why = f"The proxy that has this instance gave no answer: {error}"
            raise RestError(KAFKA_RETRIABLE, why) from None

    async def close(self) -> None:
        """Close the connections to other proxies."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()
