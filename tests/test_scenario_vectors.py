"""The crate knee-scenario and Python's reader say the same of mutated scenarios, with the same place."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
VECTORS = ROOT / "crates" / "knee-scenario" / "tests" / "vectors.jsonl"
SCRIPT = ROOT / "scripts" / "scenario_vectors.py"
MAKE = "python scripts/scenario_vectors.py 400 1 small > crates/knee-scenario/tests/vectors.jsonl"


def test_the_vectors_are_what_this_reader_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    vectors = importlib.import_module("scenario_vectors")
    for line in VECTORS.read_text(encoding="utf-8").splitlines():
        told = json.loads(line)
        again = json.loads(json.dumps(vectors.said(told["text"], tmp_path)))
        assert again == told, f"run: {MAKE}"


@pytest.mark.long
@pytest.mark.skipif(shutil.which("cargo") is None, reason="the other reader is built by cargo")
def test_both_readers_say_the_same_of_many_mutated_scenarios(tmp_path: Path) -> None:
    """KNEE_MUTATIONS says of how many, KNEE_MUTATIONS_SEED which ones."""
    count, seed = os.environ.get("KNEE_MUTATIONS", "1500"), os.environ.get("KNEE_MUTATIONS_SEED", "1")
    made = tmp_path / "vectors.jsonl"
    with made.open("wb") as out:
        subprocess.run([sys.executable, SCRIPT, count, seed], stdout=out, check=True)
    told = os.environ | {"KNEE_VECTORS": str(made), "KNEE_TRACES": str(ROOT / "python" / "knee" / "scenarios")}
    asked = ["cargo", "test", "--quiet", "-p", "knee-scenario", "--test", "vectors", "both", "--", "--nocapture"]
    done = subprocess.run(asked, cwd=ROOT, env=told, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout)
