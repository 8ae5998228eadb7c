"""The matrix of algorithms: its laws, its files, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import knee
from browser import DESKTOP, PHONE, Tab, check_layout, look, needs_chromium
from knee.cli import main
from knee.errors import InputError, RunError
from knee.grounds import runner
from knee.scenario import registry
from knee.study import matrices as matrix
from knee.study.matrices.table import COLUMNS, means, row
from knee.study.sweeps import open_sweep, work
from knee.view.matrix import page
from knee.view.matrix.figures import FAMILIES, MAPS

SHORT = ("duration=6 s", "warmup=1 s", "link.rate=20 Mbit/s", "link.limit=66 packets")
CCS = ["cubic", "vegas", "bbr"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, pl.DataFrame]:
    """A small matrix, with two seeds."""
    out = tmp_path_factory.mktemp("matrix") / "m"
    return out, matrix.run_matrix(matrix.read(CCS, set=SHORT, seeds=2), out)


def test_every_ordered_pair_is_there_once_for_each_seed(made: tuple[Path, pl.DataFrame]) -> None:
    _, frame = made
    assert list(frame.columns) == list(COLUMNS)
    assert frame.select("first", "second", "seed").rows() == [(a, b, s) for a in CCS for b in CCS for s in (1, 2)]
    assert means(frame).height == len(CCS) ** 2


def test_algorithms_that_the_queue_does_not_suit_are_remarked_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Prague through a queue that marks nothing is no Prague; the terminal and the page say so."""
    monkeypatch.chdir(tmp_path)
    remark = "drops packets of prague and marks none"
    assert [remark in told for told in matrix.read(["prague", "cubic"], set=SHORT).remarks] == [True]
    assert matrix.read("prague, cubic", set=SHORT, queue="dualpi2").remarks == []
    command = ["matrix", "--cc", "prague,cubic", "--out", "m"]
    assert main([*command, *(word for change in SHORT for word in ("--set", change))]) == 0
    assert remark in " ".join(capsys.readouterr().err.split())
    assert remark in (tmp_path / "m" / "matrix.html").read_text()


def test_share_and_jain_are_those_of_the_run(made: tuple[Path, pl.DataFrame]) -> None:
    """Of what both received in the run's window, and not of rates that hold for different times."""
    out, frame = made
    sweep = open_sweep(out)
    received = sweep.flows.sort("run", "flow").collect()["received_bytes"].to_list()
    assert frame["jain"].to_list() == sweep.runs.sort("run").collect()["jain"].to_list()
    for each, x, y in zip(frame.to_dicts(), received[::2], received[1::2], strict=True):
        assert each["share"] == x / (x + y)
        assert 0.5 <= each["jain"] <= 1
        assert each["rtt_inflation"] >= 1
        assert 0 <= each["loss"] < 1


def test_the_diagonal_is_symmetric_within_its_seeds() -> None:
    """Who is first matters where both start at once by no more than what seeds change."""
    changes = [*SHORT, "flows.1.start=0 s", "duration=20 s"]
    shares = []
    for seed in range(1, 7):
        one = matrix.scenario("cubic", "cubic", changes).model_copy(update={"seed": seed})
        shares.append(row(runner.run(one).summary, "pfifo")["share"])
    mean = sum(shares) / len(shares)
    spread = max(shares) - min(shares)
    assert spread > 0, "seeds change something"
    assert abs(mean - 0.5) <= spread, shares


def test_files_are_there_and_the_table_is_the_one_returned(made: tuple[Path, pl.DataFrame]) -> None:
    out, frame = made
    assert sorted(path.name for path in out.iterdir()) == [
        "data",
        "matrix.html",
        "matrix.parquet",
        "matrix.png",
        "sweep.json",
    ]
    assert pl.read_parquet(out / "matrix.parquet").equals(frame)
    assert (out / "matrix.png").read_bytes().startswith(b"\x89PNG")


def test_what_was_stopped_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A matrix that is stopped half-way leaves the finished runs; the second time only the others are made."""
    real = work.perform
    made: list[int] = []

    def failing(task: work.Task, look: Any = None) -> work.Part:
        if len(made) >= 3:
            raise KeyboardInterrupt
        made.extend(each.run for each in task.runs)
        return real(task, look)

    monkeypatch.setattr(work, "perform", failing)
    with pytest.raises(KeyboardInterrupt):
        matrix.run_matrix(matrix.read(CCS, set=SHORT), tmp_path / "m", jobs=1)
    assert not (tmp_path / "m" / "matrix.parquet").exists()
    first = set(open_sweep(tmp_path / "m").runs.collect()["run"])
    assert first
    made.clear()

    def counting(task: work.Task, look: Any = None) -> work.Part:
        made.extend(each.run for each in task.runs)
        return real(task, look)

    monkeypatch.setattr(work, "perform", counting)
    frame = matrix.run_matrix(matrix.read(CCS, set=SHORT), tmp_path / "m", jobs=1)
    assert first.isdisjoint(made)
    assert len(first) + len(made) == frame.height == 9


def test_the_table_is_that_of_the_runs_summaries(made: tuple[Path, pl.DataFrame]) -> None:
    out, frame = made
    summary = open_sweep(out).run(4).summary
    wanted = row(summary, "pfifo")
    assert (wanted["first"], wanted["second"], wanted["seed"]) == ("cubic", "vegas", 2)
    assert frame.row(3, named=True) == wanted


def test_a_failure_is_reported_with_its_pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(task: work.Task, look: Any = None) -> work.Part:
        return work.Part([{"run": one.run, "seed": 1, "digest": one.digest, "error": "broken"} for one in task.runs])

    monkeypatch.setattr(work, "perform", failing)
    with pytest.raises(RunError, match="9 of 9 runs failed; the first, cubic and cubic: broken"):
        matrix.run_matrix(matrix.read(CCS, set=SHORT), tmp_path / "m")


def test_classes_written_in_python_take_part(tmp_path: Path) -> None:
    class Own(knee.CongestionControl):
        """Reno."""

    frame = knee.matrix(["reno", Own], set=[*SHORT, "duration=3 s"], out=tmp_path / "m")
    assert frame["first"].to_list()[::2] == ["reno", f"python:{Own.__qualname__}"]
    # The folder does not hold the class, so that no command makes a pair again.
    assert "knee run --from" not in (tmp_path / "m" / "matrix.html").read_text()
    assert frame["jain"].null_count() == 0


def test_all_algorithms_of_the_registry_belong_to_a_drawn_family() -> None:
    names = matrix.algorithms()
    assert set(names) == {name for name, entry in registry.congestion_controls().items() if entry.family != "own"}
    assert {registry.congestion_controls()[name].family for name in names} <= set(FAMILIES)
    assert [shown.column for shown in MAPS] == ["share", "jain", "rtt_inflation", "loss"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--cc", "cubic,renoo"], "did you mean reno"),
        (["--cc", "cubic,cubic"], "twice"),
        (["--cc", ""], "no congestion control"),
        (["--cc", "reno", "--queue", "fifo"], "link.queue"),
        (["--cc", "reno", "--set", "link.rate=fast"], "link.rate"),
        (["--cc", "reno", "--set", "flows.0.count=2"], "two flows"),
        (["--cc", "reno", "--seeds", "0"], "matrix: seeds: 0 is out of range; expected 1 or more"),
        (["--cc", "reno", "--out", "taken"], "is not replaced"),
        (["--cc", "reno", "--out", "taken/thesis.tex"], "is not replaced"),
    ],
    ids=" ".join,
)
def test_bad_input_is_refused_and_nothing_written(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "thesis.tex").write_text("years of work")
    assert main(["matrix", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]
    assert [path.name for path in (tmp_path / "taken").iterdir()] == ["thesis.tex"]


@pytest.mark.docs
def test_the_columns_stand_in_the_documents() -> None:
    text = (Path(__file__).resolve().parent.parent / "docs" / "sweeps.md").read_text(encoding="utf-8")
    for name in COLUMNS:
        assert f"`{name}`" in text or f"`{name.replace('second_', 'first_')}`" in text, name


def test_a_matrix_of_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="renoo"):
        matrix.algorithms(["renoo"])


@needs_chromium
def test_the_page_filters(made: tuple[Path, pl.DataFrame]) -> None:
    probe = """
    const cells = () => document.querySelectorAll(".matrix-maps td").length;
    const before = cells();
    const box = document.querySelector('.matrix-filter input[value="hybrid"]');
    box.checked = false;
    box.dispatchEvent(new Event("input", { bubbles: true }));
    const without = cells();
    const only = document.querySelector('.matrix-filter input[type="text"]');
    only.value = "veg";
    only.dispatchEvent(new Event("input", { bubbles: true }));
    return [before, without, cells()];
    """
    told = look(made[0] / "matrix.html", probe=probe)
    # Four maps of three, two and one algorithms.
    assert told["probe"] == [4 * 9, 4 * 4, 4]
    assert told["console"] == []


SAID = """[...document.querySelectorAll(".matrix-pair tbody tr")].map((row) => row.cells[0].textContent)"""
LINKS = """[...document.querySelectorAll(".matrix-run a")].map((link) => link.getAttribute("href"))"""


@needs_chromium
@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_the_page_begins_with_the_least_fair_pair(made: tuple[Path, pl.DataFrame], width: int) -> None:
    out, frame = made
    told = check_layout(out / "matrix.html", width, tallest=2500)
    assert told["images"] == 0
    pairs = means(frame).filter(pl.col("first") != pl.col("second")).sort("jain", maintain_order=True)
    tab = Tab(out / "matrix.html", width)
    assert tab.evaluate(SAID) == list(pairs.row(0)[:2])
    tab.close()


@needs_chromium
@pytest.mark.parametrize("width", [PHONE, DESKTOP])
def test_all_algorithms_of_the_registry_fit(made: tuple[Path, pl.DataFrame], tmp_path: Path, width: int) -> None:
    """The cells of the maps have colours of their own, which hide what is behind them."""
    names = list(registry.congestion_controls())
    pairs = pl.DataFrame({"first": a, "second": b} for a in names for b in names)
    some = made[1].head(1).drop("first", "second")
    frame = pairs.join(some, how="cross").select(made[1].columns)
    text = page.page(frame, matrix.scenario("cubic", "cubic", SHORT), tmp_path, lambda a, b, q: page.PairRun())
    (tmp_path / "matrix.html").write_text(text, encoding="utf-8")
    check_layout(tmp_path / "matrix.html", width, tallest=3000)


@needs_chromium
def test_a_cell_is_chosen_by_touch_and_by_keys_and_leads_to_its_run(made: tuple[Path, pl.DataFrame]) -> None:
    out, _ = made
    order = ["cubic", "vegas", "bbr"]
    tab = Tab(out / "matrix.html", PHONE)
    tab.tap("figure.chosen td[data-i='0'][data-j='1']")
    tab.until(f"{SAID}.join() === 'cubic,vegas'")
    tab.press("ArrowDown", "ArrowRight", "ArrowRight")
    assert tab.evaluate(SAID) == order[1:], "an arrow beyond the edge stays"
    assert tab.evaluate(LINKS) == []
    command = tab.evaluate("document.querySelector('.matrix-run code').textContent")
    # Two seeds of five pairs come before those of this one.
    assert command == f"knee run --from {out} 11"
    scenario = open_sweep(out).scenario(11)
    assert [flow.cc for flow in scenario.flows] == order[1:]
    tab.close()


@needs_chromium
def test_a_cell_leads_to_a_report_that_was_kept(made: tuple[Path, pl.DataFrame], tmp_path: Path) -> None:
    _, frame = made
    (tmp_path / "runs" / "cubic--vegas").mkdir(parents=True)
    (tmp_path / "runs" / "cubic--vegas" / "report.html").touch()

    def where(first: str, second: str, _: str) -> page.PairRun:
        return page.PairRun(f"runs/{first}--{second}")

    text = page.page(frame, matrix.scenario("cubic", "cubic"), tmp_path, where)
    (tmp_path / "matrix.html").write_text(text)
    tab = Tab(tmp_path / "matrix.html", PHONE)
    tab.tap("figure.chosen td[data-i='0'][data-j='1']")
    tab.until(f"{LINKS}[0] === 'runs/cubic--vegas/report.html'")
    assert tab.evaluate("document.querySelector('.matrix-run code')") is None
    tab.tap("figure.chosen td[data-i='1'][data-j='2']")
    tab.until(f"{LINKS}[0] === 'runs/vegas--bbr/scenario.toml'")
    command = tab.evaluate("document.querySelector('.matrix-run code').textContent")
    assert command == "knee run runs/vegas--bbr/scenario.toml --out vegas--bbr"
    tab.evaluate("""addEventListener("click", (event) => {
      event.preventDefault();
      globalThis.followed = event.target.getAttribute("href");
    })""")
    tab.press("Enter")
    assert tab.evaluate("followed") == "runs/vegas--bbr/scenario.toml"
    tab.close()
