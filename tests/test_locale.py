"""Files of knee are UTF-8, and so are its arguments, whatever the locale says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("where", ["file", "label", "out"])
def test_names_that_are_not_ascii_are_text_in_a_locale_that_has_none(where: str, tmp_path: Path) -> None:
    file = tmp_path / ("grüße.toml" if where == "file" else "tiny.toml")
    lines = ['duration = "1 s"', 'link = { rate = "1 Mbit/s" }', 'flows = [{ cc = "reno", rtt = "10 ms" }]']
    file.write_text("\n".join(lines), encoding="utf-8")
    out = tmp_path / ("größe" if where == "out" else "out")
    words = ["run", str(file), "--out", str(out), *(["--set", "flows.0.label=flöw"] if where == "label" else [])]
    settings = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(
        [sys.executable, "-m", "knee", *words], env=os.environ | settings, capture_output=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    summary = (out / "summary.json").read_text(encoding="utf-8")
    assert {"file": "grüße", "label": "flöw", "out": "tiny"}[where] in summary
