"""The command knee fidelity: its terminal output, its page, several kernels."""

from __future__ import annotations

import gzip
import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from browser import DESKTOP, PHONE, Tab, check_layout, needs_chromium
from fidelity_rows import PAIR, RENO, UNKNOWN, case, judged, reference
from knee import grounds
from knee.cli import main
from knee.errors import InputError
from knee.grounds import memory, runner
from knee.grounds.sim import Sim
from knee.results.result import Result
from knee.scenario import Scenario, from_dict
from knee.study import fidelity
from knee.study.fidelity import series, shipped
from knee.study.fidelity.compare import CaseResult, Report
from knee.view.fidelity import page


def test_the_command_prints_every_case_and_every_skipped_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = reference(tmp_path, RENO, PAIR, UNKNOWN)
    assert main(["fidelity", str(path), "--jobs", "2"]) == 0
    said = capsys.readouterr().out
    for line in (
        "odd: skipped: no queue discipline sfb",
        "strange: skipped: no congestion control nosuch",
        "2 skipped",
    ):
        assert line in said
    assert "1 reno" in said
    assert "2 cubic" in said


def test_a_case_that_the_ground_refuses_is_skipped_and_the_others_are_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Linux 6.1 refuses dualpi2; two flows are run five times, and refused once."""
    run = runner.run

    def refusing(scenario: Scenario, *words: Any, **more: Any) -> Result:
        if len(scenario.flows) == 2:
            raise InputError("it has no such queue")
        return run(scenario, *words, **more)

    monkeypatch.setattr("knee.study.batch.runner.run", refusing)
    report = fidelity.run(fidelity.read(reference(tmp_path, RENO, PAIR)))
    assert [result.case.name for result in report.results] == ["one"]
    assert [(case.name, why) for case, why in report.skipped] == [("two", "it has no such queue")]
    assert (report.totals.cases, report.totals.skipped) == (2, 1)


@pytest.fixture
def two_kernels(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Linux 6.1 and 7.2, of which the older one gets half the goodput; what was run on them is noted."""
    ran = []

    def run(
        cases: list[fidelity.Case], jobs: int | None, progress: object, ground: str, kernel: str, *, quic: bool
    ) -> Report:
        ran.append(f"{ground} {kernel}")
        part = 0.5 if kernel == "6.1" else 1.0
        results, skipped = [], []
        for each in cases:
            flows = [judged((part * flow.goodput_mbps, 41.25), (9.5, 40)) for flow in each.flows]
            if each.name == "two" and kernel == "6.1":
                skipped.append((each, "it has no such queue"))
            else:
                results.append(CaseResult(each, 1, tuple(flows)))
        return Report(results, skipped)

    monkeypatch.setattr("knee.study.fidelity.run", run)
    monkeypatch.setattr("knee.grounds.ready", lambda ground: None)
    monkeypatch.setattr("knee.kernel.cache.current", lambda hz, number: number if number in ("6.1", "7.2") else None)
    return ran


def test_several_kernels_are_shown_beside_each_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], two_kernels: list[str]
) -> None:
    command = ["fidelity", str(reference(tmp_path, RENO)), "--ground", "uml", "--kernel", "6.1", "--kernel", "7.2"]
    assert main(command) == 0
    assert two_kernels == ["uml 6.1", "uml 7.2"]
    said = capsys.readouterr().out
    last = said[said.index("Kernels beside each other") :]
    row = next(line for line in last.splitlines() if "1 reno" in line)
    assert re.findall(r"\d+\.\d+", row) == ["4.75", "9.50", "41.25", "41.25"]
    assert main([*command, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [(each["kernel"], each["cases"][0]["flows"][0]["goodput_mbps"]) for each in told] == [
        ("6.1", 4.75),
        ("7.2", 9.5),
    ]


def test_a_case_that_one_of_several_kernels_refuses_is_shown_of_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], two_kernels: list[str]
) -> None:
    path = str(reference(tmp_path, PAIR, RENO))
    assert main(["fidelity", path, "--ground", "uml", "--kernel", "6.1", "--kernel", "7.2"]) == 0
    said = capsys.readouterr().out
    assert "two: skipped: it has no such queue" in said
    last = said[said.index("Kernels beside each other") :].splitlines()
    first = next(line for line in last if " two " in line)
    assert re.findall(r"\d+\.\d+|-", first) == ["-", "4.50", "-", "41.25"]
    assert re.findall(r"\d+\.\d+", next(line for line in last if " one " in line)) == ["4.75", "9.50", "41.25", "41.25"]


def test_several_kernels_are_refused_where_one_is_wanted_or_one_is_not_built(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], two_kernels: list[str]
) -> None:
    path = str(reference(tmp_path, RENO))
    both = ["--ground", "uml", "--kernel", "6.1", "--kernel", "7.2"]
    assert main(["fidelity", path, *both, "--kernel", "6.12"]) == 1
    assert 'knee linux build 6.12 --tick "10 ms"' in capsys.readouterr().err
    for words in (["--out", str(tmp_path / "out")], ["traffic"]):
        assert main(["fidelity", path, *words, *both]) == 2
        assert "leave --kernel in once" in capsys.readouterr().err
    assert two_kernels == []


def test_check_fails_where_less_holds_than_is_wanted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = reference(tmp_path, RENO.replace(",9.5,40,", ",1.0,40,"))
    assert main(["fidelity", str(path)]) == 0
    assert main(["fidelity", str(path), "--check"]) == 1
    assert "below what is wanted" in capsys.readouterr().err


def test_json_has_the_cases_and_the_totals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = reference(tmp_path, RENO, PAIR)
    assert main(["fidelity", str(path), "--json", "--case", "one"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert [c["case"] for c in said["cases"]] == ["one"]
    flow = said["cases"][0]["flows"][0]
    assert flow["goodput_error_points"] == pytest.approx((flow["goodput_mbps"] - 9.5) / 10 * 100)
    assert said["totals"]["cases"] == 1


def test_the_page_has_a_picture_per_case_and_loads_nothing(tmp_path: Path) -> None:
    path = reference(tmp_path, RENO, PAIR)
    (tmp_path / "series").mkdir()
    rows = "flow,t,cwnd\n" + "".join(f"{flow},{t / 10},{10 + t}\n" for t in range(60) for flow in (1, 2))
    with gzip.open(tmp_path / "series" / "two.csv.gz", "wt", encoding="utf-8") as file:
        file.write(rows)
    assert main(["fidelity", str(path), "--out", str(tmp_path / "page")]) == 0
    html = (tmp_path / "page" / "fidelity.html").read_text(encoding="utf-8")
    # A chart of all flows' errors, and one of the case with a time series.
    assert html.count('data-for="chart-') == 2
    assert len(html.encode()) < 400_000
    assert html.count("The kernel has no recorded time series.") == 1
    assert '"name":"2 cubic, kernel"' in html


def test_names_from_the_file_cannot_inject_markup(tmp_path: Path) -> None:
    evil = replace(case(tmp_path, RENO), name="<script>alert(1)</script>")
    html = page.page(
        {tmp_path / "x": Report([CaseResult(evil, 1, (judged((95, 50), (95, 50)),))], [(evil, "<b>why</b>")])}
    )
    assert "<script>alert" not in html
    assert "<b>why" not in html


def test_the_headline_counts_nothing_that_is_not_there(tmp_path: Path) -> None:
    """The recording of PCC Vivace has two flows: "0 of 0 with one flow and no AQM" said nothing."""
    reno, pair = fidelity.read(reference(tmp_path, RENO, PAIR))
    good = judged((95, 50), (95, 50))
    one, two = Report([CaseResult(reno, 1, (good,))], []), Report([CaseResult(pair, 1, (good, good))], [])
    texts = [page.page({tmp_path / "x": report}) for report in (one, two)]
    assert "1 of 1 with one flow and no AQM" in texts[0]
    assert "with one flow and no AQM" not in texts[1]
    assert "1 of 1 cases pass. Median error" in texts[1]


def test_a_damaged_time_series_is_refused(tmp_path: Path) -> None:
    (tmp_path / "series").mkdir()
    (tmp_path / "series" / "one.csv.gz").write_bytes(b"no gzip")
    with pytest.raises(InputError, match="is not a time series"):
        series.cwnd(tmp_path / "reference.csv", "one")


def test_without_a_file_the_recorded_kernels_that_come_along_are_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fidelity", "--case", "single-reno", "--case", "lola-100", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [(each["file"], len(each["cases"])) for each in told] == [("linux-7.2.csv", 1), ("lola-reference.csv", 1)]
    assert main(["fidelity", "--case", "nosuch-*"]) == 2
    assert "No recorded case matches" in capsys.readouterr().err


def test_recorded_kernels_go_by_name_unless_a_file_of_that_name_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert shipped.find("linux-7.2") == shipped.find("linux-7.2.csv") == shipped.shipped()["linux-7.2"]
    own = tmp_path / "linux-7.2.csv"
    own.write_text("case\n")
    assert shipped.find("linux-7.2.csv").resolve() == own
    with pytest.raises(InputError, match=r"did you mean linux-7\.2"):
        shipped.find("linux-7.1")


def test_every_recorded_kernel_can_be_read() -> None:
    assert set(shipped.RECORDINGS) == {path.stem for path in shipped.shipped()["linux-7.2"].parent.glob("*.csv")}
    assert sum(len(each) for each in shipped.cases().values()) == 35 + 15 + 16 + 12 + 4 + 4 + 8 + 8 + 1 + 6


def _page(folder: Path) -> Path:
    """The page of two cases, one with a series, one that does not hold."""
    reno, pair = fidelity.read(reference(folder, RENO.replace("one", "a-case-with-quite-a-long-name"), PAIR))
    good, bad = judged((95.0, 50.0), (95.0, 50.0)), judged((70.0, 60.0), (95.0, 50.0))
    (folder / "series").mkdir()
    rows = "flow,t,cwnd\n" + "".join(f"{flow},{t / 10},{10 + t}\n" for t in range(60) for flow in (1, 2))
    with gzip.open(folder / "series" / "two.csv.gz", "wt", encoding="utf-8") as file:
        file.write(rows)
    report = Report([CaseResult(reno, 1, (good,)), CaseResult(pair, 5, (good, bad))], [(reno, "why <b>not</b>")])
    page.write({folder / "reference.csv": report}, folder / "fidelity.html")
    return folder / "fidelity.html"


@needs_chromium
@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_the_verdict_is_in_sight(tmp_path: Path, width: int) -> None:
    html = _page(tmp_path)
    probe = """
    const cells = [...document.querySelectorAll("#cases tbody td:nth-child(2)")];
    return cells.map((cell) => [cell.textContent, cell.getBoundingClientRect().right <= innerWidth]);
    """
    told = check_layout(html, width, 3000, probe)
    assert told["charts"] == 2, "the errors of all flows, and the open case"
    assert told["probe"] == [["yes", True], ["yes", True], ["no", True]]


@needs_chromium
def test_a_case_opens_where_its_name_is_touched(tmp_path: Path) -> None:
    tab = Tab(_page(tmp_path), PHONE)
    tab.tap('#cases tbody a[href="#case-1"]')
    tab.until("document.getElementById('case-1').checkVisibility()")
    tab.close()


class _Now(Sim):
    """A ground in real time, which notes how many runs there are at once."""

    name = "now"
    real_time = True

    def __init__(self) -> None:
        self.running, self.most = 0, 0

    def run(self, *arguments: Any, **more: Any) -> Result:
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            return super().run(*arguments, **more)
        finally:
            self.running -= 1


def test_runs_in_real_time_and_large_runs_are_limited_as_those_of_any_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = _Now()
    monkeypatch.setitem(grounds.GROUNDS, "now", now)
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    several = [case(tmp_path, PAIR)]
    fidelity.run(several, ground="now")
    assert now.most == 1
    monkeypatch.setattr(now, "real_time", False)
    monkeypatch.setattr(memory, "available_memory", lambda: memory.BASE + 1)
    with pytest.raises(InputError, match="is available"):
        fidelity.run(several, ground="now")
    # Each fits alone, and no two do.
    needed = memory.needed(from_dict(fidelity.scenario(several[0])))
    monkeypatch.setattr(memory, "available_memory", lambda: needed + (needed - memory.BASE) // 2)
    now.most = 0
    fidelity.run(several, ground="now")
    assert now.most == 1
