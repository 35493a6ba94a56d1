"""The subject of a certificate as text. The expected texts were printed by Java 17."""

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID as N

from minikafka.security.distinguished_name import subject_of

from .certificates import make

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
    whole = make("x").certificate.public_bytes(Encoding.DER)
    for size in (0, 1, 3, 40, 100):
        with pytest.raises(ValueError, match="no certificate"):
            subject_of(whole[:size])
