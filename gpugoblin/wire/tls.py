"""Certificates for servers that have none: made here, trusted by their SHA-256 alone.

Owns: the self-made certificate and the digest that others pin. Must not: know who serves with it.
The digest is SHA-256 over the DER form, as browsers and `openssl x509 -fingerprint -sha256` show.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from gpugoblin.errors import WireError
from gpugoblin.wire.keys import write_private

__all__ = ["TlsFiles", "certificate_sha256", "make_self_signed"]

VALID_DAYS: Final = 3650
"""Those who pin the digest are told of a new certificate by hand, so it seldom changes."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """A certificate and its key on disk (PEM), and the digest to pin (64 hexadecimal digits)."""

    certificate: Path
    key: Path
    sha256: str


def make_self_signed(directory: Path, hostnames: Sequence[str]) -> TlsFiles:
    """A certificate for these names and addresses; one that is already there is kept.

    Raises:
        WireError: `certificate_unreadable`: the files are damaged or cannot be written.
    """
    certificate_path = directory / "tls.crt"
    key_path = directory / "tls.key"
    if not (certificate_path.exists() and key_path.exists()):
        try:
            # The key comes first: a certificate without its key would be of no use.
            key_path.unlink(missing_ok=True)
            certificate_path.unlink(missing_ok=True)
            key = ec.generate_private_key(ec.SECP256R1())
            write_private(key_path, _key_pem(key))
            write_private(certificate_path, _certificate_pem(key, hostnames))
        except OSError as cause:
            raise WireError(
                "certificate_unreadable", path=certificate_path, reason=cause
            ) from cause
    return TlsFiles(certificate_path, key_path, certificate_sha256(certificate_path))


def certificate_sha256(path: Path) -> str:
    """The digest of the first certificate in a PEM file.

    Raises:
        WireError: `certificate_unreadable`.
    """
    try:
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError) as cause:
        raise WireError("certificate_unreadable", path=path, reason=cause) from cause
    return certificate.fingerprint(hashes.SHA256()).hex()


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _certificate_pem(key: ec.EllipticCurvePrivateKey, hostnames: Sequence[str]) -> bytes:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "gpugoblin")])
    # An hour of slack, so that a client whose clock is a little behind accepts it at once.
    start = datetime.now(tz=UTC) - timedelta(hours=1)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + timedelta(days=VALID_DAYS))
        .add_extension(
            x509.SubjectAlternativeName([_general_name(host) for host in hostnames]),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM)


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
