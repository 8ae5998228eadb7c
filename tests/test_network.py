"""``knee.Network``: the links of a scenario under programs that send their own bytes."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

import knee
from knee.errors import FolderError, InputError, RunError
from knee.network import End

LINK = {"rate": "12 Mbit/s", "overhead": "0 B", "delay": "5 ms", "reverse": {"rate": "12 Mbit/s", "overhead": "0 B"}}
TWO_WAYS: dict[str, Any] = {"link": LINK, "flows": [{"label": "call", "rtt": "20 ms", "dscp": "EF"}]}


def everything(net: knee.Network) -> list[Any]:
    out = []
    while (now := net.next()) is not None:
        out += net.poll(now)
    return out


def test_bytes_ecn_and_codepoint_come_out_at_the_other_end_after_the_paths_delay() -> None:
    net = knee.Network(TWO_WAYS)
    near, far = net.ends("call")
    # 1500 bytes at 12 Mbit/s take 1 ms; what the link's delay has not of the RTT lies on the way back.
    net.send(0.0, near, b"\7" * 1472, ecn=1)
    net.send(0.0, far, b"\t" * 1472)
    seen = [(it.time, it.end, it.data[:1], it.ecn, it.dscp, it.sent, it.queued) for it in everything(net)]
    assert seen == [(0.006, far, b"\7", 1, 46, 0.0, 0.0), (0.016, near, b"\t", 0, 46, 0.0, 0.0)]
    assert (near.other(), net.flows, net.seed) == (far, ["call"], 1)
    assert repr(net) == "<knee.Network 'scenario' at 0.016 s>"


def test_drops_have_a_reason_and_links_figures(tmp_path: Path) -> None:
    link = {"rate": "12 Mbit/s", "overhead": "0 B", "limit": "3 packets"}
    net = knee.Network({"link": link, "flows": [{"rtt": "1 ms"}]})
    near, _ = net.ends()
    for _ in range(6):
        net.send(0.0, near, bytes(1472))
    assert [(it.reason, it.sender, it.link, it.size) for it in net.drops] == [("Refused", near, "bottleneck", 1500)] * 2
    assert len(everything(net)) == 4
    figures = net.link()
    assert (figures.drops, figures.bytes, figures.queueing_max) == (2, 6000, 0.003)
    assert figures == net.link("bottleneck")
    net.write_pcap(tmp_path / "drops.pcapng")
    assert (tmp_path / "drops.pcapng").read_bytes().count(b"dropped: Refused") == 2
    with pytest.raises(FolderError, match="nowhere"):
        net.write_pcap(tmp_path / "nowhere" / "drops.pcapng")


def test_the_same_calls_give_the_same_packets_and_another_seed_others() -> None:
    def run(seed: int) -> list[Any]:
        net = knee.Network(TWO_WAYS, set=[f"seed={seed}", "link.loss=0.1", 'link.jitter="2 ms"'])
        for k in range(300):
            net.send(k * 700e-6, net.ends()[0], k.to_bytes(2), ecn=2)
        return [*everything(net), *net.drops]

    assert run(1) == run(1)
    assert run(1) != run(2)


def test_a_recording_of_a_rate_is_a_link_too() -> None:
    net = knee.Network("cellular-lte")
    net.send(0.0, net.ends()[0], b"x" * 1000)
    assert [it.data for it in everything(net)] == [b"x" * 1000]


@pytest.mark.parametrize(
    ("use", "told"),
    [
        (lambda net: net.send(0, End(1, far=False), b"x"), r"there is no end End\(path=1, far=False\); ends\(\) gives"),
        (lambda net: net.send(0, net.ends()[0], b"x", ecn=4), r"ecn=4: expected 0 \(Not-ECT\), 1"),
        (lambda net: net.send(0, net.ends()[0], bytes(1473)), r"a packet of 1501 bytes was sent .* at most 1472 bytes"),
        (lambda net: net.send_ip(0, net.ends()[0], b"x" * 30), "no IP packet: the version is neither 4 nor 6"),
        (lambda net: (net.poll(2), net.poll(1)), "the clock went back from 2 s to 1 s"),
        (lambda net: net.poll(float("nan")), "now=nan: expected seconds from 0 to 1e8"),
        (lambda net: net.poll("1 s"), "now='1 s': expected seconds"),
        (lambda net: net.ends("cal"), 'no flow is named "cal"; did you mean call'),
        (lambda net: net.link("uplink"), 'no link is named "uplink"; there are: bottleneck'),
        (lambda net: net.capture(-1), r"capture\(-1\): expected 0 bytes or more"),
    ],
)
def test_what_cannot_be_is_refused_by_name(use: Any, told: str) -> None:
    net = knee.Network(TWO_WAYS)
    with pytest.raises(InputError, match=told):
        use(net)


class Echo(asyncio.DatagramProtocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: tuple[Any, ...]) -> None:
        self.transport.sendto(data, addr)  # type: ignore[attr-defined]


class Client(asyncio.DatagramProtocol):
    def __init__(self) -> None:
        self.answers: asyncio.Queue[tuple[bytes, float]] = asyncio.Queue()

    def datagram_received(self, data: bytes, addr: tuple[Any, ...]) -> None:
        self.answers.put_nowait((data, asyncio.get_running_loop().time()))


async def ping(net: knee.Network, flow: str | None = None) -> float:
    loop = asyncio.get_running_loop()
    _, far = net.ends(flow)
    transport, client = await loop.create_datagram_endpoint(Client, remote_addr=net.address(far))
    sent = loop.time()
    transport.sendto(b"ping")
    data, came = await client.answers.get()
    assert data == b"ping"
    transport.close()
    return came - sent


def test_a_program_of_asyncio_runs_in_virtual_time() -> None:
    async def program() -> list[float]:
        loop = asyncio.get_running_loop()
        await loop.create_datagram_endpoint(Echo, local_addr=("0.0.0.0", 4433))
        await asyncio.sleep(3600)
        return [await ping(net, flow) for flow in net.flows]

    net = knee.Network({**TWO_WAYS, "flows": [{"label": "a", "rtt": "20 ms"}, {"label": "b", "rtt": "40 ms"}]})
    begin = time.perf_counter()
    rtts = net.run(program())
    # 32 bytes take 21 us and a third in each direction.
    assert rtts == pytest.approx([0.020043, 0.040043], abs=1e-6)
    assert net.now == pytest.approx(3600.060, abs=1e-3)
    assert time.perf_counter() - begin < 60


def test_two_runs_of_a_program_send_the_same_packets() -> None:
    def run() -> list[float]:
        async def program() -> list[float]:
            await asyncio.get_running_loop().create_datagram_endpoint(Echo, local_addr=net.address(net.ends()[1]))
            return [await ping(net) for _ in range(50)]

        net = knee.Network(TWO_WAYS, set=['link.jitter="2 ms"'])
        return net.run(program())

    assert run() == run()


def failing(net: knee.Network, what: str) -> Any:
    near, far = (net.address(end) for end in net.ends())

    async def program() -> None:
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(Client, local_addr=near)
        match what:
            case "waits":
                await loop.create_future()
            case "too large":
                transport.sendto(bytes(1473), far)
            case "nobody":
                transport.sendto(b"x", ("10.9.9.9", 1))
            case "twice":
                await loop.create_datagram_endpoint(Client, local_addr=near)
            case "port":
                await loop.create_datagram_endpoint(Client, local_addr=("::", 80))
            case "tcp":
                await asyncio.open_connection(*far)
        await asyncio.sleep(1)

    return program()


@pytest.mark.parametrize(
    ("what", "error", "told"),
    [
        ("waits", RunError, "the program waits since 0 s, and nothing is due in the network and its timers"),
        ("too large", InputError, "a packet of 1501 bytes"),
        ("nobody", InputError, r"no end of the network has the address 10.9.9.9:1; net.address\(end\) gives each"),
        ("twice", InputError, "has a socket already; a path takes one at each end"),
        ("port", InputError, "port 80 is not that of far ends"),
        ("tcp", InputError, "a network carries datagrams"),
    ],
)
def test_a_program_that_asks_for_what_there_is_not_is_told_so(what: str, error: type[Exception], told: str) -> None:
    net = knee.Network(TWO_WAYS)
    with pytest.raises(error, match=told):
        net.run(failing(net, what))


def test_an_exception_of_the_program_comes_through() -> None:
    async def program() -> None:
        await asyncio.sleep(1)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        knee.Network(TWO_WAYS).run(program())


def test_what_the_network_refuses_last_is_told_too() -> None:
    async def program() -> None:
        net_end = net.address(net.ends()[1])
        transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(Client, remote_addr=net_end)
        transport.sendto(bytes(1473))

    net = knee.Network(TWO_WAYS)
    with pytest.raises(InputError, match="a packet of 1501 bytes"):
        net.run(program())
