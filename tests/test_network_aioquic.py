"""Unmodified aioquic over ``knee.Network``."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest
from aioquic.asyncio import QuicConnectionProtocol, connect, serve
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import QuicEvent, StreamDataReceived
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import knee

UPLINK = {"link": {"rate": "10 Mbit/s", "limit": "1000 packets"}, "flows": [{"rtt": "30 ms"}]}
BYTES = 3_000_000


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate for ``example`` that signs itself, and its key."""
    folder = tmp_path_factory.mktemp("certificate")
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "example")])
    now = datetime.datetime.now(datetime.UTC)
    built = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + datetime.timedelta(days=1))
    signed = built.add_extension(x509.SubjectAlternativeName([x509.DNSName("example")]), critical=False).sign(
        key, hashes.SHA256()
    )
    forms = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "cert.pem").write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(key.private_bytes(*forms))
    return folder / "cert.pem", folder / "key.pem"


class Sink(QuicConnectionProtocol):
    """Answers once it has all."""

    came = 0

    def quic_event_received(self, event: QuicEvent) -> None:
        if isinstance(event, StreamDataReceived):
            self.came += len(event.data)
            if event.end_stream:
                self._quic.send_stream_data(event.stream_id, str(self.came).encode(), end_stream=True)
                self.transmit()


async def upload(net: knee.Network, certificate: tuple[Path, Path]) -> tuple[bytes, float]:
    """Uploads; gives the answer and when it came, s."""
    cert, key = certificate
    far = net.address(net.ends()[1])
    configuration = QuicConfiguration(is_client=False)
    configuration.load_cert_chain(cert, key)
    server = await serve("0.0.0.0", far[1], configuration=configuration, create_protocol=Sink)
    asked = QuicConfiguration(is_client=True, server_name="example")
    asked.load_verify_locations(str(cert))
    async with connect(*far, configuration=asked) as client:
        reader, writer = await client.create_stream()
        writer.write(bytes(BYTES))
        writer.write_eof()
        answer, now = await reader.read(), net.now
    server.close()
    return answer, now


def test_an_upload_fills_the_queue_and_codel_keeps_it_short(certificate: tuple[Path, Path]) -> None:
    def run(link: dict[str, Any]) -> tuple[float, float]:
        net = knee.Network({**UPLINK, "link": {**UPLINK["link"], **link}})  # type: ignore[dict-item]
        answer, seconds = net.run(upload(net, certificate))
        assert answer == str(BYTES).encode()
        return BYTES * 8 / seconds, net.link().queueing_p95

    (goodput, queueing), (managed, short) = run({}), run({"queue": "codel"})
    assert run({}) == (goodput, queueing), "the same packets at the same times"
    assert 8e6 < goodput < 10e6
    assert managed > 6e6
    assert short < queueing / 3
