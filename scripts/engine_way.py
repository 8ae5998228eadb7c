"""Counts the functions that a packet and its ACK pass through: python scripts/engine_way.py [--list] [--quic].

Two Reno flows over one wire run in a debug build under ``valgrind --tool=callgrind``, once for a shorter and once for a
longer time, in batches and event by event. A function counts if the longer run calls it at least once more for every
four packets more: receivers acknowledge every second packet, and senders send bursts. Closures, functions of up to
three lines, what a derive or a macro makes, and ``knee-core`` do not count.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[1]
_CRATES = _ROOT / "crates"
_MS = 1_000_000
#: Lengths of the two runs.
_LENGTHS_MS = (400, 1200)
#: Calls per packet from which a function is on the way.
_SHARE = 0.25
#: Longer functions count.
_SHORT_LINES = 3
#: The sender and its algorithm, which have a way of their own.
_SENDER = ("knee-tcp/src/sender/", "knee-quic/src/sender/", "knee-cc/")
_BINARY = _ROOT / "target" / "debug" / "examples" / "run"
_BUILD = ("cargo", "build", "--quiet", "--locked", "--package", "knee-sim", "--example", "run", "--no-default-features")

Function = tuple[str, int]


def _spec(length_ms: int, event_by_event: bool, transport: str) -> dict[str, object]:
    """Two flows over 50 Mbit/s. A third over a trace, which batches do not take, sends nothing before the end."""
    links: list[dict[str, object]] = [
        {"name": "wire", "capacity": {"rate": 50_000_000}, "queue": "pfifo", "limit": {"packets": 83}, "overhead": 14}
    ]
    flows = [
        {
            "label": name,
            "cc": "reno",
            "rtt": 20 * _MS,
            "start": 0,
            "stop": length_ms * _MS,
            "path": [0],
            "transport": transport,
        }
        for name in "ab"
    ]
    if event_by_event:
        links.append({"name": "trace", "capacity": {"trace": [1]}, "queue": "pfifo", "limit": None, "overhead": 14})
        flows.append(flows[0] | {"label": "last", "start": length_ms * _MS - 1, "path": [1]})
    return {
        "duration": length_ms * _MS,
        "seed": 1,
        "warmup": 0,
        "interval": 100 * _MS,
        "links": links,
        "flows": flows,
    }


def _calls(profile: str) -> Counter[Function]:
    """The calls of each function of the crates, by its file and first line."""
    names: dict[str, str] = {}

    def resolve(kind: str, text: str) -> str:
        # The first time a name is given as "(number) name", later as "(number)".
        match = re.match(r"\((\d+)\)(?: (.*))?", text)
        assert match, text
        if match[2] is not None:
            names[kind + match[1]] = match[2]
        return names[kind + match[1]]

    first: dict[tuple[str, str], int] = {}
    called: Counter[tuple[str, str]] = Counter()
    file = callee_file = body = callee = ""
    is_call = False
    for line in profile.splitlines():
        key, _, rest = line.partition("=")
        if key == "fl":
            file = body = resolve("file", rest)
        elif key in ("fi", "fe"):
            body = resolve("file", rest)
        elif key == "fn":
            function, body, callee_file = resolve("fn", rest), file, file
        elif key in ("cfi", "cfl"):
            callee_file = resolve("file", rest)
        elif key == "cfn":
            callee = resolve("fn", rest)
        elif key == "calls":
            called[callee_file, callee] += int(rest.split()[0])
            is_call, callee_file = True, file
        elif line[:1].isdigit():
            number = int(line.split()[0])
            if not is_call and body == file and number:
                first[file, function] = min(first.get((file, function), number), number)
            is_call = False
    calls: Counter[Function] = Counter()
    for (path, name), count in called.items():
        if (path, name) in first and "{closure" not in name and Path(path).is_relative_to(_CRATES):
            calls[str(Path(path).relative_to(_CRATES)), first[path, name]] += count
    return calls


def _run(spec: dict[str, object], folder: Path) -> tuple[Counter[Function], int]:
    """The calls of a run, and how many packets it simulated."""
    (folder / "spec.json").write_text(json.dumps(spec))
    out = folder / "callgrind"
    # Positions that are not compressed are line numbers.
    tool = ["valgrind", "--tool=callgrind", "--compress-pos=no", f"--callgrind-out-file={out}"]
    done = subprocess.run([*tool, _BINARY, folder / "spec.json"], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"callgrind ended with {done.returncode}: {done.stderr.strip().splitlines()[-1]}")
    return _calls(out.read_text()), json.loads(done.stdout)["packets"]


def _name_and_length(file: str, line: int) -> tuple[str, int] | None:
    """The name of the function that begins at a line, and its length in lines; none if a derive or a macro made it."""
    lines = (_CRATES / file).read_text().splitlines()
    # With debug information a function begins at its attributes or its signature.
    start = next((i for i in range(line - 1, min(line + 4, len(lines))) if "fn " in lines[i]), None)
    if start is None or any(not lines[i].lstrip().startswith(("#[", "///")) for i in range(line - 1, start)):
        return None
    match = re.match(r"( *)(?:pub(?:\([^)]*\))? )?(?:const |unsafe )*fn (\w+)", lines[start])
    if not match:
        return None
    if lines[start].endswith("}"):
        return match[2], 1
    end = next(i for i in range(start + 1, len(lines)) if lines[i] == match[1] + "}")
    return match[2], end - start + 1


def way(event_by_event: bool, transport: str = "tcp") -> list[tuple[str, int, str, float]]:
    """The functions on the way: file, line, name and calls per packet."""
    with tempfile.TemporaryDirectory() as name:
        short, long = (_run(_spec(length, event_by_event, transport), Path(name)) for length in _LENGTHS_MS)
    packets = long[1] - short[1]
    found = []
    for (file, line), count in long[0].items():
        per_packet = (count - short[0][file, line]) / packets
        if per_packet >= _SHARE and not file.startswith("knee-core/"):
            known = _name_and_length(file, line)
            if known and known[1] > _SHORT_LINES:
                found.append((file, line, known[0], per_packet))
    return sorted(found)


def _main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("--list", action="store_true", help="show each function, with its calls per packet")
    parser.add_argument("--quic", action="store_true", help="let the flows go over QUIC")
    arguments = parser.parse_args()
    if not shutil.which("valgrind"):
        sys.exit("valgrind is not installed: apt-get install -y valgrind")
    subprocess.run(_BUILD, check=True, cwd=_ROOT)
    for name, event_by_event in (("event by event", True), ("in batches", False)):
        found = way(event_by_event, "quic" if arguments.quic else "tcp")
        outside = [each for each in found if not each[0].startswith(_SENDER)]
        if arguments.list:
            for file, line, function, calls in found:
                print(f"  {calls:5.2f}  {file}:{line} {function}")
        counts = [f"{len(some)} functions in {len({each[0] for each in some})} files" for some in (found, outside)]
        print(f"{name}: {counts[0]}; outside the sender and its algorithm {counts[1]}")


if __name__ == "__main__":
    _main()
