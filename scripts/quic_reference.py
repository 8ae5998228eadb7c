"""Flows of the simulator over QUIC beside the real stack: sudo python scripts/quic_reference.py [CASE...].

The stack is quinn as its authors ship it (``crates/knee-quinn/examples/quic_transfer.rs``), on tokio and UDP sockets,
behind ``knee shell`` on the running kernel. The other side is ``knee run`` of the same file, on the grounds ``sim``
and, for noq, which has no such program here, ``host``: noq's own connections on sockets. Prints Markdown. Real time
misleads on a machine that is busy: a row of a run with over 0.5 % of packets late says so.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tomli_w import dumps

import knee
from knee.scenario import from_dict

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve() / "release" / "examples" / "quic_transfer"
PORT = 4433
#: Windows of quinn that ``[quic]`` does not have by default.
WINDOWS = {"stream_receive_window": "1250 kB"}


@dataclass(frozen=True)
class Case:
    """A flow on a link.

    Attributes:
        cc: quinn's controller.
        link: the link, as a scenario file has it.
        rtt_ms: its base RTT.
        what: what the flow has beside its controller, such as its ``bytes``.
        seconds: how long it lasts.
    """

    cc: str
    link: dict[str, Any]
    rtt_ms: int = 40
    what: dict[str, Any] | None = None
    seconds: int = 20

    def flow(self, stack: str) -> dict[str, Any]:
        """The flow, in a stack or, where none is named, in the simulator's endpoints."""
        about = {"rtt": f"{self.rtt_ms} ms", "transport": "quic", "tls": True}
        return {"cc": f"{stack}:{self.cc}" if stack else self.cc, **about, **(self.what or {})}

    def scenario(self, stack: str) -> dict[str, Any]:
        """The scenario of a run, with quinn's windows where there are streams."""
        windows = {} if self.datagrams else {"quic": WINDOWS}
        return {"duration": f"{self.seconds} s", "link": self.link, "flows": [self.flow(stack)], **windows}

    @property
    def datagrams(self) -> dict[str, Any] | None:
        """The datagrams that it sends instead of a stream."""
        return (self.what or {}).get("traffic")

    @property
    def words(self) -> list[str]:
        """What the program sends."""
        if (traffic := self.datagrams) is not None:
            rate = round(float(traffic["rate"].split()[0]) * 1e6)
            return ["datagrams", traffic["packet_size"].split()[0], str(rate), str(self.seconds - 1)]
        size = (self.what or {}).get("bytes")
        return ["stream", size.split()[0] if size else str(10**15), str(self.seconds - 1)]


_PLAIN = {"rate": "20 Mbit/s", "limit": "25 packets"}
_REORDERED = {"rate": "20 Mbit/s", "limit": "100 packets", "jitter": "10 ms", "reorder": True}
_QUICK = {"rate": "100 Mbit/s", "limit": "1000 packets"}
CASES = {
    "25 packets": Case("cubic", _PLAIN),
    "1 % loss": Case("cubic", _PLAIN | {"loss": 0.01}),
    "reordered": Case("cubic", _REORDERED),
    "reordered, BBR": Case("bbr", _REORDERED),
    "25 packets, BBR": Case("bbr", _PLAIN),
    "BBR, 10 packets": Case("bbr", _PLAIN | {"limit": "10 packets"}),
    "1 B": Case("cubic", _QUICK, rtt_ms=100, what={"bytes": "1 B"}, seconds=4),
    "100 kB": Case("cubic", _QUICK, rtt_ms=100, what={"bytes": "100000 B"}, seconds=4),
    "datagrams": Case(
        "cubic",
        {"rate": "2 Mbit/s", "limit": "100 ms"},
        what={"traffic": {"kind": "udp", "rate": "3 Mbit/s", "packet_size": "1200 B"}},
        seconds=16,
    ),
}


def simulated(case: Case, stack: str, ground: str) -> str:
    """The figures of ``knee run``."""
    result = knee.run(case.scenario(stack), ground)
    (flow,) = result.summary["flows"]
    lost = 100 * flow["lost_packets"] / max(flow["sent_packets"], 1)
    if (datagrams := flow.get("datagrams")) is not None:
        return f"{flow['goodput_mbps']:.3f} Mbit/s, delay up to {datagrams['owd_max_ms']:.0f} ms"
    if flow["completion_s"] is not None:
        return f"{1000 * flow['completion_s']:.1f} ms"
    return f"{flow['goodput_mbps']:.2f} Mbit/s, {lost:.1f} % lost"


def real(case: Case, folder: Path) -> str:
    """The figures of quinn behind ``knee shell``."""
    file, certificate, out = folder / "scenario.toml", folder / "certificate", folder / "result"
    certificate.unlink(missing_ok=True)
    # The program takes the place and the path of this flow.
    flow = {"cc": "cubic", "rtt": f"{case.rtt_ms} ms", "label": "real"}
    told = {"duration": f"{case.seconds + 5} s", "link": case.link, "flows": [flow]}
    file.write_text(dumps(from_dict(told).plain()), encoding="utf-8")
    words = [str(PROGRAM), "send", "$KNEE_SERVER_ADDRESS", str(certificate), f"quinn:{case.cc}", *case.words]
    send = (
        f"while [ ! -s {certificate} ]; do sleep 0.1; done; KNEE_SERVER_ADDRESS=$KNEE_SERVER:{PORT}; {' '.join(words)}"
    )
    command = [
        sys.executable, "-m", "knee", "shell", str(file), "--instead-of", "real", "--sends", "--no-outside",
        "--no-report", "--out", str(out),
        "--server", shlex.join([str(PROGRAM), "serve", f"0.0.0.0:{PORT}", str(certificate)]),
        "--", "sh", "-c", send,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=case.seconds + 60)
    line = next((line for line in done.stdout.splitlines() if line.startswith("{")), None)
    if line is None:
        sys.exit(f"quinn did not run: {done.stdout}{done.stderr}")
    figures = json.loads(line)
    switch = knee.Result.load(out).manifest["switch"]
    late = 100 * switch["behind"] / max(switch["departures"], 1)
    busy = f" ({late:.1f} % late)" if late > 0.5 else ""
    mbps = 8e-6 * figures["bytes"] / figures["span_s"] if figures["span_s"] else 0.0
    if case.datagrams is not None:
        # Half of the base RTT is behind the link there, and before nobody here.
        return f"{mbps:.3f} Mbit/s, delay up to {figures['most_delay_ms']:.0f} ms{busy}"
    if (case.what or {}).get("bytes"):
        return f"{1000 * figures['seconds']:.1f} ms{busy}"
    return f"{mbps:.2f} Mbit/s, {100 * figures['lost'] / max(figures['sent'], 1):.1f} % lost{busy}"


def main(names: list[str]) -> None:
    """Runs the cases and prints the table."""
    if unknown := [name for name in names if name not in CASES]:
        sys.exit(f"no case {unknown[0]!r}; expected one of {', '.join(CASES)}")
    build = ["cargo", "build", "--quiet", "--release", "-p", "knee-quinn", "--example", "quic_transfer"]
    # Optimisation at link time takes minutes, and nothing here waits for a processor.
    build += ["--config", 'profile.release.lto="off"']
    subprocess.run(build, cwd=ROOT, check=True)
    print("| case | controller | quinn behind `knee shell` | quinn, `sim` | ours, `sim` | noq, `sim` | noq, `host` |")
    print("|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name in names or CASES:
            case = CASES[name]
            # Stacks carry no datagrams there, noq has no such BBR, and quinn's lacks the pacing of ours.
            stacks = case.datagrams is None
            cells = [name, f"`{case.cc}`", real(case, Path(folder))]
            cells.append(simulated(case, "quinn", "sim") if stacks else "")
            cells.append(simulated(case, "", "sim") if case.cc != "bbr" else "")
            cells += [
                simulated(case, "noq", ground) if stacks and case.cc != "bbr" else "" for ground in ("sim", "host")
            ]
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
