"""The vectors that the crate knee-scenario is held against are what Python's reader says."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
VECTORS = ROOT / "crates" / "knee-scenario" / "tests" / "vectors.jsonl"


def test_the_vectors_are_what_this_reader_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    vectors = importlib.import_module("scenario_vectors")
    for line in VECTORS.read_text(encoding="utf-8").splitlines():
        told = json.loads(line)
        again = json.loads(json.dumps(vectors.said(told["text"])))
        assert again == told, "run: python scripts/scenario_vectors.py 400 1 > crates/knee-scenario/tests/vectors.jsonl"
