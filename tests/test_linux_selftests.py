"""``scripts/selftests.py``: what the guest takes for a case of tdc that passed."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[1] / "linux/upstream/selftests.sh"
TDC = """\
1..4
ok 1 8b37 - Create cocoa with default setting
not ok 2 0680 - Create cocoa with flow_max_rate setting
\tCannot find device "dummy1id0680"

ok 3 4e69 - Create cocoa with low_rate_threshold setting # skipped - skipped - previous teardown failed 15 0680

ok 4 244c - Create cocoa with ce_threshold setting
"""


def test_a_case_that_tdc_skips_has_not_passed(tmp_path: Path) -> None:
    said = tmp_path / "said"
    said.write_text(TDC)
    (command,) = re.findall(r"^sed -n '.*?' /tmp/said$", SCRIPT.read_text(), re.MULTILINE | re.DOTALL)
    done = subprocess.run(
        ["sh", "-c", command.replace("/tmp/said", str(said))], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [
        "knee tdc 8b37 ok",
        "knee tdc 0680 failed",
        "knee tdc 4e69 skipped",
        "knee tdc 244c ok",
    ]
