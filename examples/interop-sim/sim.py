"""The network simulator of the QUIC interop runner (its slot ``sim``), with knee's switch between eth0 and eth1.

The runner's containers route everything through this one: the client is behind eth0, the server behind eth1. A rule for
each interface leads what comes in to a TUN device of the switch, the switch does to it what SCENARIO says, and what
comes out of the other device leaves by the table of routes. Packets for this container itself stay here.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from knee.scenario import from_dict
from knee.scenario.spec import spec

#: The interface and the device of each side: the server's, from which data comes as a rule, and the client's.
SIDES = (("eth1", "knee-a", 101), ("eth0", "knee-b", 100))
#: Clients and servers wait until this port answers.
READY = 57832
_UNITS = {"delay": r"\d+(\.\d+)?(us|ms|s)", "bandwidth": r"\d+(\.\d+)?[kMG]?bps", "queue": r"\d+"}


def scenario(text: str, duration: str) -> dict[str, Any]:
    """The runner's scenario as knee's: a link of ``bandwidth`` both ways, each with ``delay`` and ``queue`` packets.

    Raises:
        SystemExit: names what is wrong with SCENARIO.
    """
    words = text.split()
    if words[:1] != ["simple-p2p"]:
        sys.exit(
            f'SCENARIO="{text}": expected simple-p2p --delay=15ms --bandwidth=10Mbps --queue=25; no other is done.'
        )
    given = {}
    for word in words[1:]:
        key, _, value = word.removeprefix("--").partition("=")
        if not word.startswith("--") or key not in _UNITS or not re.fullmatch(_UNITS[key], value):
            sys.exit(f"SCENARIO: {word} is not known; expected --delay=15ms, --bandwidth=10Mbps or --queue=25.")
        given[key] = value
    if left := _UNITS.keys() - given.keys():
        sys.exit(f'SCENARIO="{text}": --{min(left)} is missing; expected --delay, --bandwidth and --queue.')
    amount, unit = re.fullmatch(r"([\d.]+)(\w+)", given["delay"]).groups()  # type: ignore[union-attr]
    rate = re.sub(r"([kMG]?)bps", r" \1bit/s", given["bandwidth"])
    queue = {"rate": rate, "queue": "pfifo", "limit": f"{given['queue']} packets"}
    # A flow's RTT is all of its delays: one of them lies on the way to the client, the rest on the way back.
    link = queue | {"delay": f"{amount} {unit}", "reverse": queue}
    flow = {"cc": "cubic", "rtt": f"{2 * float(amount):g} {unit}", "label": "all"}
    return {"name": "interop", "duration": duration, "interval": "1 s", "link": link, "flows": [flow]}


def ip(*words: str) -> None:
    """Runs ``ip`` for both kinds of addresses."""
    for version in ("-4", "-6"):
        # Without IPv6 here there is nothing to lead.
        subprocess.run(
            ["ip", version, *words], check=version == "-4", stderr=None if version == "-4" else subprocess.DEVNULL
        )


def route() -> None:
    """Leads what comes from each interface to the switch, and what comes from that to the other interface."""
    for file in ("ipv4/ip_forward", "ipv6/conf/all/forwarding"):
        if Path("/proc/sys/net", file).exists():
            Path("/proc/sys/net", file).write_text("1")
    Path("/proc/sys/net/ipv4/conf/all/rp_filter").write_text("0")
    for interface, device, table in SIDES:
        for name in (interface, device):
            Path(f"/proc/sys/net/ipv4/conf/{name}/rp_filter").write_text("0")
        subprocess.run(["ip", "link", "set", device, "up", "txqueuelen", "50000"], check=True)
        ip("route", "replace", "default", "dev", device, "table", str(table))
        ip("rule", "add", "iif", interface, "lookup", str(table))


def main() -> None:
    """The program."""
    told = spec(from_dict(scenario(os.environ.get("SCENARIO", ""), os.environ.get("DURATION", "6 h"))))
    config = {
        "spec": told,
        "sides": [{"namespace": "/proc/self/ns/net", "device": device} for _, device, _ in SIDES],
        "port": 0xFF00,
        "addresses": ["127.0.0.1", "127.0.0.1"],
        "program": 0,
        "capture": None,
        "qlog": None,
        "parent": os.getpid(),
        "user": 65_534,
    }
    switch = subprocess.Popen(
        [Path(sys.prefix) / "bin" / "knee-switch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert switch.stdin is not None
    assert switch.stdout is not None
    print(json.dumps(config), file=switch.stdin, flush=True)
    if switch.stdout.readline() != "ready\n":
        sys.exit("sim: the switch did not start; it says why above")
    route()
    print(time.monotonic_ns(), file=switch.stdin, flush=True)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: print("stop", file=switch.stdin, flush=True))
    door = socket.create_server(("", READY))
    threading.Thread(target=lambda: [door.accept()[0].close() for _ in iter(int, 1)], daemon=True).start()
    print("ready", flush=True)
    # A line of figures; the rows after it are not text.
    figures = json.loads(switch.stdout.buffer.readline())
    print(json.dumps(figures["late"] | {"link": figures["output"]["links"][0]}), flush=True)


if __name__ == "__main__":
    main()
