"""Plants errors of a packet or a timer in the core, and counts the random networks that notice each.

``scripts/fidelity_errors.py 60 --seed 5``

Each error of :data:`ERRORS` is put into a copy of the sources, the core is built anew, and the networks run in its
simulator; a kernel (ground uml) runs each of them once, in all variants. Printed are, for each error, the networks that
agree with the kernel, and those that did so without the error and do not with it.
"""

from __future__ import annotations

import argparse
import itertools
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from knee.scenario import from_dict
from knee.study import batch
from knee.study.fidelity.networks import compare, draw

ROOT = Path(__file__).resolve().parents[1]


class Error(NamedTuple):
    """An error: what is wrong, the file below crates, and its text before and after."""

    what: str
    file: str
    before: str
    after: str


ERRORS = (
    Error("15 quick ACKs for 16", "knee-tcp/src/receiver.rs", "MAX_QUICK_ACKS: u8 = 16", "MAX_QUICK_ACKS: u8 = 15"),
    Error(
        "an ACK waits for up to 100 ms, not 200",
        "knee-tcp/src/receiver.rs",
        "DELAYED_ACK_MAX: Time = Time::from_millis(200)",
        "DELAYED_ACK_MAX: Time = Time::from_millis(100)",
    ),
    Error(
        "12 packets leave unpaced, not 10",
        "knee-tcp/src/sender/pacing.rs",
        "FIRST_PACED: u64 = 10",
        "FIRST_PACED: u64 = 12",
    ),
    Error("a loss probe after one RTT, not two", "knee-tcp/src/sender/probe.rs", "srtt8_us() >> 2", "srtt8_us() >> 3"),
    Error(
        "four packets beyond a gap show a loss, not three",
        "knee-tcp/src/sender/recovery.rs",
        "DUP_THRESHOLD: u32 = 3",
        "DUP_THRESHOLD: u32 = 4",
    ),
    Error(
        "each ACK in recovery lets one packet more leave",
        "knee-tcp/src/sender/prr.rs",
        "room.min(bound + i64::from(progress))",
        "room.min(bound + i64::from(progress || delivered > 0))",
    ),
    Error(
        "the reordering timer waits 20 ms more, not 2",
        "knee-tcp/src/sender/rack.rs",
        "REORDER_TIMER_MIN: Time = Time::from_micros(2000)",
        "REORDER_TIMER_MIN: Time = Time::from_micros(20000)",
    ),
    Error("bursts of 2 ms, not 1", "knee-tcp/src/sender/bursts.rs", "PACING_SHIFT: u32 = 10", "PACING_SHIFT: u32 = 9"),
    Error(
        "HyStart takes 9 samples, not 8",
        "knee-cc/src/slow_start/hystart.rs",
        "MIN_SAMPLES: u8 = 8",
        "MIN_SAMPLES: u8 = 9",
    ),
    Error(
        "CoDel goes on from one drop more",
        "knee-queue/src/codel_law.rs",
        "            state.count = drops;",
        "            state.count = drops + 1;",
    ),
)


Found = tuple[dict[int, bool], dict[int, tuple[compare.Run, ...]]]


def judge(asked: argparse.Namespace, known: Path) -> Found:
    """Runs the networks in the simulator of the core that is imported, and on the kernel unless ``known`` has that.

    Returns:
        By number, whether a network agrees, and its figures in the simulator.
    """
    networks = dict(enumerate(draw.networks(asked.networks, asked.seed), 1))
    scenarios = {number: from_dict(data) for number, data in networks.items()}

    def measured(ground: str) -> dict[int, tuple[compare.Run, ...]]:
        jobs = [
            batch.Job(f"{number}/{run}", from_dict(compare.moved(data, scenarios[number], run)), ground)
            for number, data in networks.items()
            for run in range(asked.runs)
        ]
        lacks: set[int] = set()

        def note(job: batch.Job, _: Exception) -> None:
            lacks.add(int(job.name.split("/")[0]))

        done = iter(batch.results(jobs, compare.measure, refused=note, failed=note))
        each = {number: tuple(run for run in itertools.islice(done, asked.runs) if run) for number in networks}
        return {number: runs for number, runs in each.items() if number not in lacks}

    if not known.exists():
        known.write_bytes(pickle.dumps(measured(asked.ground)))
    other, sim = pickle.loads(known.read_bytes()), measured("sim")
    both = sorted(sim.keys() & other.keys())
    agree = {
        number: compare.Network(number, networks[number], scenarios[number], sim[number], other[number]).agrees
        for number in both
    }
    return agree, sim


def main(words: Sequence[str] | None = None) -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("networks", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=6, help="variants of each network")
    parser.add_argument("--ground", default="uml")
    parser.add_argument("--target", type=Path, help="cargo's folder of an earlier run, which saves minutes")
    parser.add_argument("--known", type=Path, help=argparse.SUPPRESS)
    words = sys.argv[1:] if words is None else words
    asked = parser.parse_args(words)
    if asked.known is not None:
        sys.stdout.buffer.write(pickle.dumps(judge(asked, asked.known)))
        return
    with tempfile.TemporaryDirectory() as folder:
        copy, known = Path(folder) / "knee", Path(folder) / "kernel"
        subprocess.run(["git", "clone", "--quiet", "--shared", str(ROOT), str(copy)], check=True)
        again = [sys.executable, __file__, *words, "--known", str(known)]

        def judged() -> Found:
            _build(copy, asked.target or Path(folder) / "target")
            told = {**os.environ, "PYTHONPATH": str(copy / "python")}
            found: Found = pickle.loads(subprocess.run(again, stdout=subprocess.PIPE, check=True, env=told).stdout)
            return found

        right, figures = judged()
        print(f"| error | agree, of {len(right)} | no more | moved |\n|---|---:|---:|---:|")
        print(f"| none | {sum(right.values())} | | |", flush=True)
        for error in ERRORS:
            source = copy / "crates" / error.file
            text = source.read_text(encoding="utf-8")
            assert text.count(error.before) == 1, f"{error.file} has {error.before!r} {text.count(error.before)} times"
            source.write_text(text.replace(error.before, error.after), encoding="utf-8")
            wrong, moved = judged()
            source.write_text(text, encoding="utf-8")
            lost = [number for number, agrees in right.items() if agrees and not wrong[number]]
            other = sum(figures[number] != moved[number] for number in right)
            print(f"| {error.what} | {sum(wrong.values())} | {len(lost)} | {other} |", flush=True)


def _build(copy: Path, target: Path) -> None:
    # Whole-program optimisation would take longer than all runs, and gives the same bits.
    build = ["--release", "--package", "knee-py", "--lib", "--features", "pyo3/extension-module", "--quiet"]
    quick = ["--config", "profile.release.lto=false", "--config", "profile.release.codegen-units=16"]
    subprocess.run(["cargo", "build", *build, *quick, "--target-dir", str(target)], check=True, cwd=copy)
    shutil.copy(target / "release" / "lib_core.so", copy / "python" / "knee" / "_core.abi3.so")


if __name__ == "__main__":
    main()
