"""Programs that build kernels and folders of systems are ended with all that they have started."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from knee.kernel import tools


def _interrupt(line: str) -> None:
    raise KeyboardInterrupt


def test_a_program_that_is_ended_cleans_up_first(tmp_path: Path) -> None:
    script = f"trap 'echo done > {tmp_path}/cleaned; exit 1' TERM; echo begun; while :; do sleep 0.05; done"
    with pytest.raises(KeyboardInterrupt):
        tools.run(["sh", "-c", script], "Waiting", _interrupt)
    assert (tmp_path / "cleaned").read_text() == "done\n"


@pytest.mark.parametrize("again", [False, True], ids=["waits", "interrupted again"])
def test_one_that_does_not_end_is_killed_with_what_it_has_started(
    again: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if again:
        monkeypatch.setattr(subprocess.Popen, "communicate", lambda *_, **__: _interrupt(""))
    monkeypatch.setattr(tools, "_CLEAN_UP_S", 0.2)
    beat = tmp_path / "beat"
    child = f"trap '' TERM; while :; do echo x >> {beat}; sleep 0.02; done"
    begun = f"until [ -e {beat} ]; do sleep 0.01; done; echo begun"
    with pytest.raises(KeyboardInterrupt):
        tools.run(["sh", "-c", f"trap '' TERM; ({child}) & {begun}; wait; sleep 1000"], "Waiting", _interrupt)
    left = beat.stat().st_size
    time.sleep(0.3)
    assert beat.stat().st_size == left
