"""The certificate of a host that serves TLS: made at its start, gone with its process.

Nobody has signed it. The hub knows it by its fingerprint, which the host tells when it registers;
so neither its name nor its dates mean anything. Python's `ssl` takes keys from files only: this one
is in memory, has no name in any file system, and is closed when it has been read.
"""

from __future__ import annotations

import os
import ssl
from datetime import datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

_SINCE, _UNTIL = datetime(2020, 1, 1), datetime(9999, 12, 31, 23, 59, 59)  # RFC 5280: no end


def make_certificate() -> tuple[ssl.SSLContext, bytes]:
    """What a host serves TLS with, and the fingerprint of the certificate it shows."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "tbhub host")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_SINCE)
        .not_valid_after(_UNTIL)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0  # each connection proves itself anew
    with os.fdopen(os.memfd_create("key"), "wb") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(private + certificate.public_bytes(serialization.Encoding.PEM))
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{file.fileno()}")
    return context, certificate.fingerprint(hashes.SHA256())
