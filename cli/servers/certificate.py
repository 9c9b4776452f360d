"""A certificate that one program shows to itself: whoever lacks the key is turned away."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

_NAME = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "gristmill")])
_LIFETIME = timedelta(days=3650)  # it is made anew at each start
_CLOCK_SKEW = timedelta(days=1)


def write_pair(*, certificate: Path, key: Path) -> None:
    """Make a key and a certificate that is its own authority, both for their owner's eyes only."""
    private = ec.generate_private_key(ec.SECP256R1())
    _write(certificate, _self_signed(private).public_bytes(Encoding.PEM))
    _write(key, private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


def _self_signed(private: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(_NAME)
        .issuer_name(_NAME)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    )
    return builder.sign(private, SHA256())


def _write(path: Path, data: bytes) -> None:
    path.unlink(missing_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
