"""The subject of a certificate as a distinguished name, written as Java writes it (RFC 2253).

Rules and ACLs that were written for Kafka compare this text. Python's own form has another order
and long names, so the name is read from the certificate's bytes. Nothing is verified here.
"""

from collections.abc import Iterator
from typing import Final

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
"""The attributes that have a keyword in RFC 2253; any other is written by its number."""
_STRINGS: Final = (0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1C, 0x1E)
"""The tags of the types whose bytes Java writes as text."""
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_VERSION: Final = 0xA0
_BEFORE_SUBJECT: Final = 4
"""Serial number, algorithm, issuer and validity stand before the subject."""


def subject_of(certificate: bytes) -> str:
    """Return the subject of a certificate in DER. Raise ValueError if it is none."""
    try:
        ((_, signed),) = _elements(certificate)
        (_, inner), *_ = _elements(signed)
        fields = [content for tag, content in _elements(inner) if tag != _VERSION]
        return name_of(fields[_BEFORE_SUBJECT])
    except (IndexError, ValueError) as error:
        raise ValueError("the bytes are no certificate") from error


def name_of(name: bytes) -> str:
    """Return the text of a Name, given as the content of its sequence.

    The most specific part comes first, although it is the last in the certificate.
    """
    parts = [
        "+".join(_attribute(attribute) for _, attribute in _elements(part))
        for _, part in _elements(name)
    ]
    return ",".join(reversed(parts))


def _attribute(attribute: bytes) -> str:
    (_, number), (tag, value) = _elements(attribute)
    key = _dotted(number)
    keyword = _KEYWORDS.get(key)
    if keyword is None or tag not in _STRINGS:
        return f"{keyword or key}=#{_encoded(tag, value).hex()}"
    return f"{keyword}={_escaped(value.decode('utf-8', 'replace'))}"


def _escaped(text: str) -> str:
    """Put a backslash before special characters, and before the spaces at both ends."""
    core = text.strip(" ")
    lead = len(text) - len(text.lstrip(" "))
    trail = len(text) - len(core) - lead
    inner = "".join("\\" + each if each in _ESCAPED else each for each in core)
    return "\\ " * lead + inner.replace("\0", "\\00") + "\\ " * trail


def _elements(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield tag and content of each element. Raise ValueError if one is cut off."""
    position = 0
    while position < len(data):
        tag, size = data[position], data[position + 1]
        position += 2
        if size & 0x80:
            width = size & 0x7F
            size = int.from_bytes(data[position : position + width], "big")
            position += width
        if position + size > len(data):
            raise ValueError("an element reaches beyond the end")
        yield tag, data[position : position + size]
        position += size


def _encoded(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < 0x80:
        return bytes((tag, size)) + content
    width = (size.bit_length() + 7) // 8
    return bytes((tag, 0x80 | width)) + size.to_bytes(width, "big") + content


def _dotted(number: bytes) -> str:
    """Return an object identifier in dotted form."""
    arcs, value = [], 0
    for byte in number:
        value = value << 7 | byte & 0x7F
        if not byte & 0x80:
            arcs.append(value)
            value = 0
    first = min(arcs[0] // 40, 2)
    return ".".join(str(arc) for arc in (first, arcs[0] - 40 * first, *arcs[1:]))
