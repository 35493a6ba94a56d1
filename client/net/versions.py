"""The versions of each API that this client and one broker both speak.

Pure: the caller sends ApiVersions and passes the answer to `on_answer`, which may return a lower
version for another try.
"""

from ...protocol import codec
from ...protocol.api import ApiKey
from ...protocol.errors import ErrorCode, RemoteProtocolError
from ...protocol.messages.api_versions import ApiVersionsResponse
from ...protocol.schema import Versions, shape_of
from .errors import UnsupportedVersion


class AgreedVersions:
    """The common API versions of one connection, and its cluster's finalised features."""

    def __init__(self, address: str) -> None:
        """`address` is the broker's address, for error messages."""
        self._address = address
        self._peer: dict[int, Versions] = {}
        self._chosen: dict[int, int] = {}
        self.features: dict[str, int] = {}
        """The level of each finalised feature of the cluster, from the newest answer."""

    def on_answer(self, answer: ApiVersionsResponse, asked_in: int) -> int | None:
        """Process an answer to ApiVersions; return a lower version to try next, or None if done.

        A broker that does not have the version `asked_in` answers UNSUPPORTED_VERSION and names the
        versions it has (KIP-511). Raise RemoteProtocolError for every other error, and if even
        version 0 is refused.
        """
        served = answer.api_keys
        self._peer = {a.api_key: Versions(a.min_version, a.max_version) for a in served}
        if answer.error_code == ErrorCode.NONE:
            self.features = {f.name: f.max_version_level for f in answer.finalized_features}
            return None
        code = ErrorCode(answer.error_code)
        if code is not ErrorCode.UNSUPPORTED_VERSION or asked_in == 0:
            raise RemoteProtocolError(f"ApiVersions v{asked_in} was answered {code.name}")
        offered = self._peer.get(ApiKey.API_VERSIONS)
        return min(offered.last, asked_in - 1) if offered is not None else 0

    def supports(self, key: ApiKey) -> bool:
        """True if the broker and this client have a version of this API in common."""
        return self._common(key) is not None

    def of(self, key: int, at_most: int | None = None) -> int:
        """Return the highest common version, but not more than `at_most`.

        Raise UnsupportedVersion if there is no common version.
        """
        version = self._chosen.get(key)
        if version is None:
            common = self._common(key)
            if common is None:
                ours, theirs = shape_of(codec.request_class(key)).versions, self._peer.get(key)
                name = ApiKey(key).name
                raise UnsupportedVersion(
                    f"{self._address}: {name}: the broker has {theirs or 'no version'}, "
                    f"we have {ours}"
                )
            version = self._chosen[key] = common.last
        return version if at_most is None else min(version, at_most)

    def _common(self, key: int) -> Versions | None:
        peer = self._peer.get(key)
        if peer is None:
            return None
        ours = shape_of(codec.request_class(key)).versions
        common = Versions(max(peer.first, ours.first), min(peer.last, ours.last))
        return common if common.first <= common.last else None
