"""``knee.Network``: the links of a scenario under programs that send their own bytes."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
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


BESIDE: dict[str, Any] = {
    "duration": "10 s",
    "link": {"rate": "10 Mbit/s", "limit": "100 packets"},
    "flows": [
        {"label": "call", "rtt": "30 ms"},
        {"label": "download", "cc": "cubic", "rtt": "30 ms", "start": "1 s"},
        {"label": "pages", "cc": "reno", "rtt": "30 ms", "traffic": {"kind": "requests", "preset": "web-page"}},
        {"label": "fast", "cc": "bbr", "transport": "quic", "rtt": "30 ms", "bytes": "5 MB"},
        {"label": "sensor", "traffic": {"kind": "udp", "rate": "1 Mbit/s", "packet_size": "500 B"}, "rtt": "30 ms"},
    ],
}


@pytest.mark.parametrize("flows", [["download"], ["pages"], ["fast"], ["sensor"], ["download", "pages", "fast"]])
def test_flows_in_the_background_are_those_of_a_run(flows: list[str]) -> None:
    # The program's path comes last: a flow's traffic is drawn by its number.
    call, *_ = BESIDE["flows"]
    sent = [flow for flow in BESIDE["flows"] if flow["label"] in flows]
    net = knee.Network({**BESIDE, "flows": [*sent, call]})
    for flow in flows:
        net.background(flow)
    net.poll(10.0)
    result = knee.run({**BESIDE, "flows": sent})
    expected = dict(zip(result.flows["label"], result.flows["delivered_bytes"], strict=True))
    assert {flow: net.flow(flow).delivered for flow in flows} == expected
    assert all(net.flow(flow).sent > 1000 for flow in flows)


def test_a_packet_waits_behind_a_download_in_the_background() -> None:
    net = knee.Network(BESIDE)
    net.background("download")
    near, _ = net.ends("call")
    waited = []
    for k in range(500):
        waited += [(packet.sent, packet.queued) for packet in net.poll(k * 0.02)]
        net.send(k * 0.02, near, bytes(160))
    assert all(queued == 0.0 for sent, queued in waited if sent < 1.0)
    # A hundred packets of 1514 bytes take 121 ms.
    assert 0.09 < max(queued for _, queued in waited) < 0.122
    assert net.flow("download").goodput > 8.5e6


def test_what_is_the_simulators_is_not_the_programs() -> None:
    net = knee.Network(BESIDE, set=["flows[4].traffic.rate=2 Mbit/s"])
    with pytest.raises(InputError, match=r'the flow "call" sends nothing of its own; say what, for example with cc'):
        net.background("call")
    with pytest.raises(InputError, match=r'no flow is named "downlod"; did you mean download'):
        net.background("downlod")
    with pytest.raises(InputError, match=r'the flow "download" is the program\'s; the simulator sends those that back'):
        net.flow("download")
    net.background("sensor")
    with pytest.raises(
        InputError, match=r'the flow "sensor" is the simulator\'s; a program sends on the paths of others'
    ):
        net.send(0.0, net.ends("sensor")[0], b"x")
    net.poll(1.0)
    assert 1.8e6 < net.flow("sensor").goodput < 2e6
    with pytest.raises(InputError, match=r'the flow "pages" came into the background at 1 s; say so before anything'):
        net.background("pages")
    own = {"label": "own", "cc": knee.CongestionControl, "rtt": "30 ms"}
    with pytest.raises(InputError, match=r'the algorithm of "own" is written in Python, and flows in the background'):
        knee.Network({**BESIDE, "flows": [own]}).background("own")
    # A change may say what a flow sends.
    knee.Network(BESIDE, set=["flows[0].cc=reno"]).background("call")


def test_a_program_that_waits_beside_a_flow_of_the_simulators_ends_with_an_error() -> None:
    net = knee.Network({"link": {"rate": "1 Mbit/s"}, "flows": [{"rtt": "1 s"}, {"cc": "reno", "rtt": "1 s"}]})
    net.background("flow 2")
    with pytest.raises(RunError, match="the program waits since 2 s, and no packet and no timer is due for it"):
        net.run(waits_for_ever(net))


async def waits_for_ever(net: knee.Network) -> None:
    await asyncio.sleep(2)
    await asyncio.Event().wait()


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
        ("waits", RunError, "the program waits since 0 s, and no packet and no timer is due for it"),
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


@pytest.mark.packages
@pytest.mark.skipif(shutil.which("go") is None, reason="the example in Go needs go")
def test_a_program_in_go_finds_what_a_download_does() -> None:
    root = Path(__file__).parents[1]
    # The profile and the folder of Rust's tests, which have compiled most of it.
    asked = ["--quiet", "--profile", "test", "--package", "knee-capi", "--target-dir", "target"]
    subprocess.run(["cargo", "build", *asked], check=True, cwd=root)
    built = str(root / "target" / "debug")
    told = {**os.environ, "CGO_LDFLAGS": f"-L{built}", "LD_LIBRARY_PATH": built}
    example = root / "crates" / "knee-capi" / "examples" / "go"
    run = subprocess.run(["go", "test", "./..."], cwd=example, env=told, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
