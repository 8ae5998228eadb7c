"""A Linux queue of 1000 packets, by how many segments share a packet: sudo python scripts/super_packets.py.

A sender, a router with htb at 100 Mbit/s over pfifo with a limit of 1000, and a receiver, each in a network namespace
of the running kernel. One CUBIC flow runs for 20 s; gso_max_segs limits what TCP sends down together. The simulator
stands beside it, with one segment in a packet and with bursts that count as one (`gso`). Prints Markdown.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time

import knee

_RATE, _LIMIT, _SECONDS, _WARMUP = "100mbit", 1000, 20, 5
_SEGMENTS = {"one": 1, "two": 2, "as Linux sends": None}


def _do(command: str) -> str:
    ran = subprocess.run(command.split(), capture_output=True, text=True)
    if ran.returncode:
        raise SystemExit(f"{command}: {ran.stderr.strip()}. It needs root, iproute2 and iperf3.")
    return ran.stdout


def _network(segments: int | None) -> None:
    for name in ("knee-s", "knee-r", "knee-d"):
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
    _do("tc -n knee-r qdisc add dev rd root handle 1: htb default 1")
    _do(f"tc -n knee-r class add dev rd parent 1: classid 1:1 htb rate {_RATE} burst 15k")
    _do(f"tc -n knee-r qdisc add dev rd parent 1:1 pfifo limit {_LIMIT}")


def _measured(segments: int | None) -> tuple[float, float]:
    """Mean RTT in ms, and Mbit/s of payload, after the warm-up."""
    try:
        _network(segments)
        server = subprocess.Popen("ip netns exec knee-d iperf3 -s -1".split(), stdout=subprocess.DEVNULL)
        time.sleep(0.5)
        client = f"ip netns exec knee-s iperf3 -c 10.9.2.2 -C cubic -t {_SECONDS} -O {_WARMUP} -i 0.1 -J"
        told = json.loads(_do(client))
        server.wait(10)
    finally:
        for name in ("knee-s", "knee-r", "knee-d"):
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
    intervals = [each["streams"][0] for each in told["intervals"] if not each["sum"]["omitted"]]
    return statistics.mean(each["rtt"] for each in intervals) / 1e3, told["end"]["sum_received"][
        "bits_per_second"
    ] / 1e6


def _simulated(gso: bool) -> tuple[float, float]:
    link = {"rate": "100 Mbit/s", "limit": f"{_LIMIT} packets", "queue_params": {"gso": gso}}
    flow = {"cc": "cubic", "rtt": "100 us"}
    scenario = {"duration": f"{_WARMUP + _SECONDS} s", "warmup": f"{_WARMUP} s", "link": link, "flows": [flow]}
    figures = knee.run(scenario).summary["flows"][0]
    return figures["rtt_mean_ms"], figures["goodput_mbps"]


def main() -> None:
    """Measures, simulates, and prints the table."""
    rows = {f"Linux, {name}": _measured(segments) for name, segments in _SEGMENTS.items()}
    rows |= {"simulator, one": _simulated(gso=False), "simulator, `gso = true`": _simulated(gso=True)}
    print("| segments in a packet | mean RTT, ms | goodput, Mbit/s |\n|---|---:|---:|")
    for name, (rtt_ms, goodput) in rows.items():
        print(f"| {name} | {rtt_ms:.0f} | {goodput:.1f} |")


if __name__ == "__main__":
    if len(sys.argv) != 1:
        raise SystemExit(__doc__)
    main()
