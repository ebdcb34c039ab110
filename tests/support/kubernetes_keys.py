"""What the parts of a cluster know each other by: certificates of its own authority, and tokens."""

from __future__ import annotations

import datetime
import secrets
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

_DAY = datetime.timedelta(days=1)
_SIGNS = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)
_USERS = {
    "admin": ("admin", "system:masters"),
    "controller-manager": ("system:kube-controller-manager", ""),
    "scheduler": ("system:kube-scheduler", ""),
    "proxy": ("system:kube-proxy", ""),
}


@dataclass(frozen=True)
class Keys:
    """Files in a directory: ``ca.crt``, ``server.crt``, ``server.key``, ``accounts.key``,
    ``tokens``, and a kubeconfig for each part: ``admin.conf``."""

    directory: Path

    @classmethod
    def make(cls, directory: Path, address: str, service: str, node: str) -> Keys:
        """For a server at an address, which is a service, too, and one node."""
        directory.mkdir()
        keys = cls(directory)
        authority = _key()
        issuer = _name("tbhub tests")
        ca = (
            _certificate(issuer, issuer, authority)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_SIGNS, critical=True)
            .sign(authority, hashes.SHA256())
        )
        keys._write("ca.crt", ca.public_bytes(serialization.Encoding.PEM))
        server = _key()
        known_as = [
            *(x509.IPAddress(ip_address(each)) for each in (address, service, "127.0.0.1")),
            *(x509.DNSName(each) for each in ("localhost", node, "kubernetes.default.svc")),
        ]
        # It shows the same to those who ask it and to the node that it asks.
        name = _name("kube-apiserver", "system:masters")
        shown = (
            _certificate(name, issuer, server)
            .add_extension(x509.SubjectAlternativeName(known_as), critical=False)
            .add_extension(_issued_by(authority), critical=False)
            .sign(authority, hashes.SHA256())
        )
        keys._write("server.crt", shown.public_bytes(serialization.Encoding.PEM))
        keys._write("server.key", _private(server))
        keys._write("accounts.key", _private(_key()))
        users = {**_USERS, "kubelet": (f"system:node:{node}", "system:nodes")}
        lines = []
        for file, (user, group) in users.items():
            token = secrets.token_hex(16)
            lines.append(f'{token},{user},{user},"{group}"')
            kubeconfig(directory / f"{file}.conf", address, keys["ca.crt"], token)
        keys._write("tokens", "\n".join(lines).encode())
        return keys

    def __getitem__(self, file: str) -> str:
        return str(self.directory / file)

    def _write(self, file: str, content: bytes) -> None:
        (self.directory / file).write_bytes(content)


def kubeconfig(
    path: Path, address: str, authority: str, token: str, namespace: str = "default"
) -> None:
    """Says where a cluster is, and as whom it is asked."""
    cluster = {"server": f"https://{address}:6443", "certificate-authority": authority}
    context = {"cluster": "here", "user": "me", "namespace": namespace}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "here", "cluster": cluster}],
        "contexts": [{"name": "here", "context": context}],
        "users": [{"name": "me", "user": {"token": token}}],
    }
    path.write_text(yaml.safe_dump(config))


def _key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def _issued_by(key: rsa.RSAPrivateKey) -> x509.AuthorityKeyIdentifier:
    return x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())


def _private(key: rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def _name(common: str, group: str = "") -> x509.Name:
    found = [x509.NameAttribute(NameOID.COMMON_NAME, common)]
    if group:
        found.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, group))
    return x509.Name(found)


def _certificate(
    name: x509.Name, issuer: x509.Name, key: rsa.RSAPrivateKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)
        .not_valid_after(now + _DAY)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
