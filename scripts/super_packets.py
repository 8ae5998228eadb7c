"""A Linux queue of 1000 packets, by how many segments share a packet: sudo python scripts/super_packets.py.

A sender, a router with htb at 100 Mbit/s over pfifo with a limit of 1000, and a receiver, each in a network namespace
of the running kernel. One CUBIC flow runs for 25 s; gso_max_segs limits what TCP sends down together. Linux's default
send buffer, the last number of tcp_wmem, is 4 MiB; the same flow runs with one that limits nothing too. The simulator,
whose flows have no send buffer, stands beside it, with one segment in a packet and with bursts that count as one
(`gso`). Prints Markdown.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass

import knee

_RATE, _LIMIT, _SECONDS, _WARMUP = "100mbit", 1000, 20, 5
_FRAME = 1514
_SEGMENTS = {"one": 1, "two": 2, "as Linux sends": None}
#: The last number of tcp_wmem, bytes.
_BUFFERS = {"4 MiB": 4 << 20, "no limit": 256 << 20}
_NAMESPACES = ("knee-s", "knee-r", "knee-d")


@dataclass(frozen=True)
class _Measured:
    """Figures of a flow after the warm-up; ``segments`` is the mean per packet, if the queue's packets were counted."""

    rtt_ms: float
    goodput_mbps: float
    segments: float | None
    lost: int

    def cells(self) -> str:
        segments = "" if self.segments is None else f"{self.segments:.1f}"
        return f"{segments} | {self.rtt_ms:.0f} | {self.goodput_mbps:.1f} | {self.lost}"


def _do(command: str) -> str:
    ran = subprocess.run(command.split(), capture_output=True, text=True)
    if ran.returncode:
        raise SystemExit(f"{command}: {ran.stderr.strip()}. It needs root, iproute2 and iperf3.")
    return ran.stdout


def _network(segments: int | None, buffer: int) -> None:
    for name in _NAMESPACES:
        _do(f"ip netns add {name}")
    for near, far, here, there in (
        ("knee-s", "knee-r", "10.9.1.1", "10.9.1.2"),
        ("knee-r", "knee-d", "10.9.2.1", "10.9.2.2"),
    ):
        devices = (near[-1] + far[-1], far[-1] + near[-1])
        _do(f"ip link add {devices[0]} netns {near} type veth peer name {devices[1]} netns {far}")
        for namespace, device, address in ((near, devices[0], here), (far, devices[1], there)):
            _do(f"ip -n {namespace} addr add {address}/24 dev {device}")
            _do(f"ip -n {namespace} link set {device} up")
            if segments is not None:
                _do(f"ip -n {namespace} link set {device} gso_max_segs {segments}")
    _do("ip -n knee-s route add default via 10.9.1.2")
    _do("ip -n knee-d route add default via 10.9.2.1")
    _do("ip netns exec knee-r sysctl -q net.ipv4.ip_forward=1")
    _write("knee-s", "net.ipv4.tcp_wmem", f"4096 16384 {buffer}")
    _write("knee-d", "net.ipv4.tcp_rmem", f"4096 131072 {256 << 20}")
    _do("tc -n knee-r qdisc add dev rd root handle 1: htb default 1")
    _do(f"tc -n knee-r class add dev rd parent 1: classid 1:1 htb rate {_RATE} burst 15k")
    _do(f"tc -n knee-r qdisc add dev rd parent 1:1 pfifo limit {_LIMIT}")


def _write(namespace: str, setting: str, value: str) -> None:
    command = ["ip", "netns", "exec", namespace, "sysctl", "-q", "-w", f"{setting}={value}"]
    subprocess.run(command, check=True)


def _held() -> tuple[int, int, int]:
    """Bytes and packets that the queue holds, and packets that it has dropped."""
    told = json.loads(_do("tc -n knee-r -s -j qdisc show dev rd"))
    queue = next(each for each in told if each["kind"] == "pfifo")
    return queue["backlog"], queue["qlen"], queue["drops"]


def _measured(segments: int | None, buffer: int) -> _Measured:
    """One flow; the queue is looked at ten times a second."""
    seen = []
    try:
        _network(segments, buffer)
        server = subprocess.Popen("ip netns exec knee-d iperf3 -s -1".split(), stdout=subprocess.DEVNULL)
        time.sleep(0.5)
        command = f"ip netns exec knee-s iperf3 -c 10.9.2.2 -C cubic -t {_SECONDS} -O {_WARMUP} -i 0.1 -J"
        client = subprocess.Popen(command.split(), stdout=subprocess.PIPE, text=True)
        begun = time.monotonic()
        while time.monotonic() - begun < _WARMUP + _SECONDS:
            time.sleep(0.1)
            if time.monotonic() - begun > _WARMUP:
                seen.append(_held())
        told = json.loads(client.communicate()[0])
        server.wait(10)
    finally:
        for name in _NAMESPACES:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
    intervals = [each["streams"][0] for each in told["intervals"] if not each["sum"]["omitted"]]
    return _Measured(
        statistics.mean(each["rtt"] for each in intervals) / 1e3,
        told["end"]["sum_received"]["bits_per_second"] / 1e6,
        sum(size for size, _, _ in seen) / _FRAME / sum(packets for _, packets, _ in seen),
        sum(each["retransmits"] for each in intervals),
    )


def _simulated(gso: bool) -> _Measured:
    link = {"rate": "100 Mbit/s", "limit": f"{_LIMIT} packets", "queue_params": {"gso": gso}}
    flow = {"cc": "cubic", "rtt": "100 us"}
    scenario = {"duration": f"{_WARMUP + _SECONDS} s", "warmup": f"{_WARMUP} s", "link": link, "flows": [flow]}
    figures = knee.run(scenario).summary["flows"][0]
    return _Measured(figures["rtt_mean_ms"], figures["goodput_mbps"], None, figures["lost_packets"])


def main() -> None:
    """Measures, simulates, and prints the table."""
    rows = {
        f"Linux, {name} | {size}": _measured(segments, buffer)
        for name, segments in _SEGMENTS.items()
        for size, buffer in _BUFFERS.items()
    }
    rows |= {"simulator, one | no limit": _simulated(gso=False)}
    rows |= {"simulator, `gso = true` | no limit": _simulated(gso=True)}
    print("| segments in a packet | send buffer | held in the queue | mean RTT, ms | goodput, Mbit/s | lost |")
    print("|---|---|---:|---:|---:|---:|")
    for name, measured in rows.items():
        print(f"| {name} | {measured.cells()} |")


if __name__ == "__main__":
    if len(sys.argv) != 1:
        raise SystemExit(__doc__)
    main()
