"""TLS and mTLS by settings."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from coldstore.shared.errors import InvalidInput, Unavailable
from jjq.remote.settings import ClientTls, RemoteSettings
from jjq.remote.store import RemoteStore
from jjq.server.server import serve
from jjq.server.settings import ServerSettings, Tls
from tests.jjq.fakestore import FakeStore

BEGIN = datetime(2020, 1, 1, tzinfo=UTC)


class Authority:
    """Signs certificates into a directory."""

    def __init__(self, directory: Path, name: str) -> None:
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._certificate = self._sign(self._name, self._key, is_authority=True)
        self.path = directory / f"{name}.pem"
        self.path.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))

    def _sign(
        self, name: x509.Name, key: ec.EllipticCurvePrivateKey, *, is_authority: bool
    ) -> x509.Certificate:
        local = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(BEGIN)
            .not_valid_after(BEGIN + timedelta(days=36_500))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([local]), critical=False)
            .sign(self._key, hashes.SHA256())
        )

    def issue(self, name: str) -> tuple[Path, Path]:
        """A certificate and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate, secret = self._directory / f"{name}.crt", self._directory / f"{name}.key"
        signed = self._sign(subject, key, is_authority=False)
        certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        secret.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return certificate, secret


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "ours")


async def reached(address: str, tls: ClientTls | None) -> bool:
    async with RemoteStore(address, RemoteSettings(timeout_seconds=0.7, tls=tls)) as store:
        try:
            await store.list_queues()
        except Unavailable:
            return False
        return True


async def test_tls_needs_only_the_servers_certificate(authority: Authority, tmp_path: Path) -> None:
    certificate, key = authority.issue("server")
    server = await serve(FakeStore(), ServerSettings(listen="127.0.0.1:0", tls=Tls(certificate, key)))
    stranger = Authority(tmp_path, "stranger")
    assert await reached(server.address, ClientTls(authority.path))
    assert not await reached(server.address, ClientTls(stranger.path))
    assert not await reached(server.address, None)
    await server.stop(0)


async def test_mtls_lets_in_only_who_shows_a_certificate_of_ours(
    authority: Authority, tmp_path: Path
) -> None:
    certificate, key = authority.issue("server")
    settings = ServerSettings(listen="127.0.0.1:0", tls=Tls(certificate, key, client_ca=authority.path))
    server = await serve(FakeStore(), settings)
    ours = authority.issue("client")
    theirs = Authority(tmp_path, "stranger").issue("intruder")
    assert await reached(server.address, ClientTls(authority.path, *ours))
    assert not await reached(server.address, ClientTls(authority.path))
    assert not await reached(server.address, ClientTls(authority.path, *theirs))
    await server.stop(0)


async def test_a_certificate_that_cannot_be_used_is_named_at_the_start(
    authority: Authority, tmp_path: Path
) -> None:
    certificate, _ = authority.issue("server")
    missing = ServerSettings(listen="127.0.0.1:0", tls=Tls(certificate, tmp_path / "no.key"))
    with pytest.raises(InvalidInput, match=r"no\.key"):
        await serve(FakeStore(), missing)
    other = authority.issue("other")[1]
    for wrong in (Tls(certificate, other), Tls(tmp_path / "server.key", other)):
        with pytest.raises(InvalidInput, match=r"certificate .* and key .*other\.key do not fit"):
            await serve(FakeStore(), ServerSettings(listen="127.0.0.1:0", tls=wrong))
    with pytest.raises(InvalidInput, match=r"client CA .*other\.key holds no certificate"):
        Tls(*authority.issue("server"), client_ca=other).credentials()
    with pytest.raises(InvalidInput, match="both"):
        ClientTls(authority.path, certificate=certificate)
    with pytest.raises(InvalidInput, match=r"no\.pem"):
        RemoteStore("a:1", RemoteSettings(tls=ClientTls(tmp_path / "no.pem")))._link.lane()
