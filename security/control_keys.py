"""The keys of the control plane in one process, and their file.

The file is read anew for each handshake, so that keys are changed without a restart. A file that
has become unreadable is reported, and the keys that it had stay in use.
"""

import logging
from typing import Final

from ..protocol.control.messages import SealAccepted, SealOffer
from ..runtime.errors import ConfigError
from ..runtime.runtime import Runtime
from .control_seal import NONCE_BYTES, Keyring, Offering, Seal, accept, keyring_of
from .control_settings import FILE, HOW, NONE
from .small_file import READ, WRITE, read_small

_FILE_BYTES_MAX: Final = 4096

log = logging.getLogger(__name__)


class ControlKeys:
    """The keys that this process holds, and whether it refuses peers without one of them."""

    def __init__(self, runtime: Runtime, path: str, *, is_required: bool) -> None:
        """Read the file. Raise ConfigError if that is not possible."""
        self.is_required = is_required
        self._runtime = runtime
        self._path = path
        self._keyring = self._read()
        self._said = ""

    @classmethod
    def open(cls, runtime: Runtime, security: str | None, path: str | None) -> "ControlKeys | None":
        """Read the keys that the settings name; None if they name none.

        Raise ConfigError if the file cannot be read.
        """
        return None if path is None else cls(runtime, path, is_required=security != NONE)

    def offering(self) -> Offering:
        """Begin a handshake as the end that connects."""
        return Offering(self._fresh(), self._runtime.rng.randbytes(NONCE_BYTES))

    def accept(self, offer: SealOffer) -> tuple[SealAccepted, Seal] | None:
        """Answer an offer, as the end that listens; None if it names no key that is held here."""
        return accept(self._fresh(), offer, self._runtime.rng.randbytes(NONCE_BYTES))

    def _fresh(self) -> Keyring:
        try:
            keyring, said = self._read(), ""
        except ConfigError as error:
            keyring, said = self._keyring, str(error)
            if said != self._said:
                log.error("%s; the keys that were read before are used on", said)
        if keyring != self._keyring:
            log.info("%s has other keys now: %d", self._path, len(keyring))
        self._keyring, self._said = keyring, said
        return keyring

    def _read(self) -> Keyring:
        data = read_small(
            self._runtime.fs,
            FILE,
            self._path,
            bytes_max=_FILE_BYTES_MAX,
            forbidden=READ | WRITE,
        )
        try:
            return keyring_of(data.decode("ascii"))
        except UnicodeDecodeError:
            raise ConfigError(FILE, self._path, "it is not text") from None
        except ValueError as error:
            raise ConfigError(FILE, self._path, f"{error}; {HOW}") from None
