"""How kernels reach the server: every address it may listen on, and its own certificate."""

import datetime
import ssl
from types import SimpleNamespace

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from proxy_calls import ADA, message
from proxy_server import ProxyServer

from cellwright.server.proxy.kernel_access import proxy_url, trusting
from cellwright.testing import say


def server(ip: str = "localhost", *, certfile: str = "", base_url: str = "/", sock: str = ""):
    return SimpleNamespace(ip=ip, port=8899, certfile=certfile, base_url=base_url, sock=sock)


@pytest.mark.parametrize(
    ("place", "url"),
    [
        (server(), "http://127.0.0.1:8899/cellwright/api/anthropic"),
        (server(""), "http://127.0.0.1:8899/cellwright/api/anthropic"),
        (server("0.0.0.0"), "http://127.0.0.1:8899/cellwright/api/anthropic"),
        (server("*"), "http://127.0.0.1:8899/cellwright/api/anthropic"),
        (server("::"), "http://[::1]:8899/cellwright/api/anthropic"),
        (server("::1"), "http://[::1]:8899/cellwright/api/anthropic"),
        (server("10.1.2.3"), "http://10.1.2.3:8899/cellwright/api/anthropic"),
        (server("fd00::5"), "http://[fd00::5]:8899/cellwright/api/anthropic"),
        (server("lab.example"), "http://lab.example:8899/cellwright/api/anthropic"),
        (server(base_url="/user/ada/"), "http://127.0.0.1:8899/user/ada/cellwright/api/anthropic"),
        (server(certfile="c.pem"), "https://localhost:8899/cellwright/api/anthropic"),
        (server("10.1.2.3", certfile="c.pem"), "https://10.1.2.3:8899/cellwright/api/anthropic"),
    ],
)
def test_the_address_for_kernels(place, url):
    assert proxy_url(place) == url


def test_the_administrators_word_goes_before():
    assert proxy_url(server(sock="/run/s"), "https://lab.example/x/") == "https://lab.example/x"


def test_a_unix_socket_has_no_address_for_kernels():
    with pytest.raises(ValueError, match="anthropic_proxy_url"):
        proxy_url(server(sock="/run/s"))


@pytest.fixture
def own_certificate(tmp_path):
    """A certificate that its server has signed itself, as most servers with TLS on a network of their own have."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    plain, no_password = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    certificate, private = tmp_path / "certificate.pem", tmp_path / "key.pem"
    certificate.write_bytes(built.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(key.private_bytes(serialization.Encoding.PEM, plain, no_password))
    return certificate, private


def test_a_kernel_trusts_its_servers_own_certificate(tmp_path, messages_server, own_certificate, monkeypatch):
    certificate, private = own_certificate
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate, private)
    api = messages_server([say("over TLS")])
    environ = trusting({"A": "1"}, str(certificate), tmp_path / "bundle.pem")
    assert environ["A"] == "1"
    with ProxyServer(tmp_path / "proxy", api.url, api.api_key, tls=tls) as proxy:
        url = proxy.url.replace("127.0.0.1", "localhost") + "/v1/messages"
        headers = {"authorization": f"Bearer {ADA}"}
        with pytest.raises(httpx2.ConnectError):
            httpx2.post(url, json=message(), headers=headers, timeout=60)
        monkeypatch.setenv("SSL_CERT_FILE", environ["SSL_CERT_FILE"])
        assert "over" in httpx2.post(url, json=message(), headers=headers, timeout=60).text


def test_what_was_trusted_is_trusted_still(tmp_path, own_certificate):
    usual = tmp_path / "usual.pem"
    usual.write_text("-----BEGIN CERTIFICATE-----\nusual\n-----END CERTIFICATE-----")
    environ = trusting({"SSL_CERT_FILE": str(usual)}, str(own_certificate[0]), tmp_path / "bundle.pem")
    text = (tmp_path / "bundle.pem").read_text()
    assert environ["SSL_CERT_FILE"] == str(tmp_path / "bundle.pem")
    assert text.startswith(usual.read_text())
    assert text.endswith(own_certificate[0].read_text())
