"""The subject of a certificate as text. The expected texts were printed by Java 17."""

import contextlib

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID as N
from hypothesis import given
from hypothesis import strategies as st

from minikafka.security.distinguished_name import subject_of

from .certificates import make

WHOLE = make("broker-1").certificate.public_bytes(Encoding.DER)
Attribute = tuple[x509.ObjectIdentifier, str]


def name(*parts: Attribute | tuple[Attribute, ...]) -> x509.Name:
    relative = []
    for part in parts:
        attributes = part if isinstance(part[0], tuple) else (part,)
        relative.append(
            x509.RelativeDistinguishedName(x509.NameAttribute(*each) for each in attributes)
        )
    return x509.Name(relative)


def text_of(subject: x509.Name) -> str:
    return subject_of(make(subject).certificate.public_bytes(Encoding.DER))


@pytest.mark.parametrize(
    ("subject", "text"),
    [
        (
            name(
                (N.COUNTRY_NAME, "DE"),
                (N.STATE_OR_PROVINCE_NAME, "Hessen"),
                (N.LOCALITY_NAME, "Frankfurt, am Main"),
                (N.ORGANIZATION_NAME, "x"),
                (N.ORGANIZATIONAL_UNIT_NAME, "ops"),
                (N.COMMON_NAME, "broker-1"),
            ),
            r"CN=broker-1,OU=ops,O=x,L=Frankfurt\, am Main,ST=Hessen,C=DE",
        ),
        (
            name(
                (N.DOMAIN_COMPONENT, "org"),
                (N.DOMAIN_COMPONENT, "example"),
                ((N.USER_ID, "u1"), (N.COMMON_NAME, 'a+b"c\\d<e>f;g=h#i')),
            ),
            r"UID=u1+CN=a\+b\"c\\d\<e\>f\;g\=h\#i,DC=example,DC=org",
        ),
        (
            name(
                (
                    (N.ORGANIZATION_NAME, "z"),
                    (N.COMMON_NAME, "m"),
                    (N.ORGANIZATIONAL_UNIT_NAME, "k"),
                )
            ),
            "CN=m+O=z+OU=k",
        ),
        (
            name((N.COMMON_NAME, " edge  in  "), (N.STREET_ADDRESS, "1 Way")),
            r"STREET=1 Way,CN=\ edge  in\ \ ",
        ),
        (name((N.COMMON_NAME, " ")), r"CN=\ "),
        (
            name(
                (N.EMAIL_ADDRESS, "a@b.c"),
                (N.SERIAL_NUMBER, "77"),
                (N.TITLE, "Dr"),
                (N.COMMON_NAME, "Grün ☃"),
            ),
            "CN=Grün ☃,2.5.4.12=#0c024472,2.5.4.5=#13023737,1.2.840.113549.1.9.1=#16056140622e63",
        ),
        (
            name((N.COMMON_NAME, "bmp", _ASN1Type.BMPString)),  # type: ignore[arg-type]
            r"CN=\00b\00m\00p",
        ),
        (name((N.COMMON_NAME, "nl\nnul\0x")), "CN=nl\nnul\\00x"),
    ],
)
def test_s_22_a_subject_is_written_as_java_writes_it(subject: x509.Name, text: str) -> None:
    assert text_of(subject) == text


def test_bytes_that_are_no_certificate_are_refused() -> None:
    for size in (0, 1, 3, 40, 100):
        with pytest.raises(ValueError, match="no certificate"):
            subject_of(WHOLE[:size])


@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), min_size=1, max_size=8))
def test_a_damaged_certificate_is_read_or_refused(changes: list[tuple[int, int]]) -> None:
    damaged = bytearray(WHOLE)
    for place, byte in changes:
        damaged[place % len(damaged)] = byte
    with contextlib.suppress(ValueError):
        subject_of(bytes(damaged))
