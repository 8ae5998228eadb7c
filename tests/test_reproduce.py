"""``knee reproduce``: runs, judges, continues, refuses; its pages in a real browser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from browser import DESKTOP, PHONE, check_layout, look, needs_chromium
from knee import cli
from knee.errors import FolderError, InputError
from knee.papers import drawing, items, recipes
from knee.papers import run as running
from knee.papers.items import Items, Value
from knee.papers.paper import Experiment, Paper, Results, Run, Table
from knee.study.matrices.table import COLUMNS
from knee.view.matrix import page as matrix_page

DATA = {
    "duration": "2 s",
    "link": {"rate": "10 Mbit/s", "limit": "50 packets"},
    "flows": [{"cc": "reno", "rtt": "20 ms"}],
}
ITEMS = {
    "paper": {
        "title": "A tiny <paper>",
        "source": "Nobody, Nowhere 2020",
        "address": "https://example.org/",
        "about": "For tests.",
    },
    "experiment": {
        "one": {"title": "Fig. 1", "about": "One flow."},
        "two": {"title": "Three seeds", "about": "Three seeds."},
    },
    "item": [
        {"key": "full", "experiment": "one", "says": "<b>full</b> use", "computed": "goodput", "compare": "within"}
        | {"value": 9.5, "unit": "Mbit/s", "tolerance": "10 %", "reason": "it starts", "where": "Fig. 1"},
        {"key": "fast", "experiment": "one", "says": "a hundred", "computed": "goodput", "compare": "at least"}
        | {"value": 100, "unit": "Mbit/s", "explanation": "The link has ten.", "where": "Fig. 2"}
        | {"check": {"says": "with a link of two hundred", "computed": "on a faster link"}},
        {"key": "slow", "experiment": "one", "says": "one", "computed": "goodput", "compare": "at most", "value": 1}
        | {"unknown": "It is nine."},
        {"key": "yes", "experiment": "two", "says": "three runs", "computed": "three", "compare": "claim"},
    ],
    "finding": [
        {"key": "open", "experiment": "two", "says": "three", "computed": "three", "compare": "claim", "where": "open"}
    ],
}


#: A matrix of two algorithms under two queues, its figures made up.
MATRIX = pl.DataFrame(
    [
        {name: 0.5 if kind is pl.Float64 else 1 for name, (kind, _) in COLUMNS.items()}
        | {"first": a, "second": b, "first_family": "hybrid", "second_family": "hybrid", "queue": queue}
        for queue in ("pfifo", "fq_codel")
        for a in ("cubic", "bbr")
        for b in ("cubic", "bbr")
    ],
    schema={name: kind for name, (kind, _) in COLUMNS.items()},
)

PAPER = Paper(
    key="tiny",
    experiments=[
        Experiment(
            key="one",
            runs=[Run("one", DATA)],
            measure=lambda r: {"goodput": r["one"].summary["flows"][0]["goodput_mbps"], "on a faster link": 190.0},
            drawings=[drawing.of_run("one", "Throughput & more.")],
            extra=lambda r: matrix_page.fragment(
                MATRIX,
                r.folder("one").parents[3],
                lambda a, b, q: matrix_page.PairRun(f"runs/{q}/{a}--{b}"),
            ),
            tables=lambda r, q: [Table("A table.", ["", "x" * 30, "y" * 30, "z" * 30], [["a", "1", "2", "3"]])],
        ),
        Experiment(
            key="two",
            runs=[Run("three", DATA, seeds=3, quick_seeds=2, vary=lambda k: [f"flows.0.start={k} ms"])],
            measure=lambda r: {"three": len(list(r.each("three"))) == (2 if r.short else 3)},
            conclusion=lambda q: f"It is {q['three']}.",
        ),
    ],
).worded(Items.model_validate(ITEMS))


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(items, "load", lambda key: Items.model_validate(ITEMS))
    monkeypatch.setattr("knee.papers.recipes.NAMES", ("tiny",))
    monkeypatch.setattr("knee.papers.recipes.paper", lambda name: PAPER)


def test_items_are_judged_and_differences_explained(tiny: None, tmp_path: Path) -> None:
    (paper,) = running.reproduce([PAPER], tmp_path / "out")
    assert [(row.key, row.verdict, row.explained, row.finding) for row in paper.rows] == [
        ("full", "reproduced", False, False),
        ("fast", "differs", True, False),
        ("slow", "differs", False, False),
        ("yes", "reproduced", False, False),
        ("open", "reproduced", False, True),
    ]
    folders = sorted(path.name for path in (tmp_path / "out" / "runs" / "tiny").iterdir())
    assert folders == ["one", "three-seed1", "three-seed2", "three-seed3"]


def test_the_command_says_what_came_out(
    tiny: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Wide enough for verdicts on one line.
    monkeypatch.setenv("COLUMNS", "160")
    assert cli.main(["reproduce", "--quick", "--out", str(tmp_path / "out")]) == 0
    told = capsys.readouterr().out
    assert "2 of 4 reproduced. 1 differs, and a run shows the cause. 1 differs, cause unknown." in " ".join(
        told.split()
    )
    assert ("DIFFERS, EXPLAINED" in told, "DIFFERS, CAUSE UNKNOWN" in told) == (True, True)
    page = (tmp_path / "out" / "report.html").read_text()
    assert ("differs, explained" in page, "differs, cause unknown" in page) == (True, True)
    assert json.loads((tmp_path / "out" / "reproduce.json").read_bytes())["quick"] is True


def test_it_goes_on_where_it_was(tiny: None, tmp_path: Path) -> None:
    running.reproduce([PAPER], tmp_path)
    manifests = {path: path.read_bytes() for path in tmp_path.rglob("manifest.json")}
    assert len(manifests) == 4
    (tmp_path / "report.html").unlink()
    running.reproduce([PAPER], tmp_path)
    assert (tmp_path / "report.html").is_file()
    assert {path: path.read_bytes() for path in tmp_path.rglob("manifest.json")} == manifests


def test_a_summary_of_other_columns_is_made_anew(tiny: None, tmp_path: Path) -> None:
    running.reproduce([PAPER], tmp_path)
    mark = tmp_path / running.MARK
    data = json.loads(mark.read_bytes())
    del data["papers"][0]["rows"][0]["room"]
    mark.write_text(json.dumps(data))
    (paper,) = running.reproduce([PAPER], tmp_path)
    assert len(paper.rows) == 5


def test_what_a_ground_cannot_run_is_said(tiny: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from knee.errors import InputError
    from knee.grounds import GROUNDS
    from knee.grounds.sim import Sim

    class Picky(Sim):
        name = "picky"

        def refuse(self, scenario: object, where: str | None = None) -> None:
            if scenario.name == "three":  # type: ignore[attr-defined]
                raise InputError("The ground picky does not count to three.")

    monkeypatch.setitem(GROUNDS, "picky", Picky())
    (paper,) = running.reproduce([PAPER], tmp_path, ground="picky")
    assert [row.verdict for row in paper.rows] == ["reproduced", "differs", "differs", "not run", "not run"]
    assert "does not count to three" in (tmp_path / "tiny.html").read_text()


def test_an_experiment_does_without_an_optional_run_that_a_ground_refuses(
    tiny: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from knee.errors import InputError
    from knee.grounds import GROUNDS
    from knee.grounds.sim import Sim

    class Picky(Sim):
        name = "picky"

        def refuse(self, scenario: object, where: str | None = None) -> None:
            if scenario.name == "faster":  # type: ignore[attr-defined]
                raise InputError("The ground picky is never faster.")

    monkeypatch.setitem(GROUNDS, "picky", Picky())

    def measure(results: Results) -> dict[str, Value]:
        goodput = results["one"].summary["flows"][0]["goodput_mbps"]
        return {"goodput": goodput, "on a faster link": 190.0 if "faster" in results.runs else None}

    one = PAPER.experiments[0]
    faster = Run("faster", DATA | {"name": "faster"}, optional=True)
    paper = replace(PAPER, experiments=[replace(one, runs=[*one.runs, faster], measure=measure)])
    for ground, explained in (("sim", True), ("picky", False)):
        (rows,) = running.reproduce([paper], tmp_path / ground, ground=ground)
        assert [row.verdict for row in rows.rows] == ["reproduced", "differs", "differs"]
        assert rows.rows[1].explained is explained


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nosuch"], "no paper"),
        (["--ground", "moon"], "no ground"),
        (["--out", "taken"], "not written by knee reproduce"),
    ],
)
def test_bad_input_is_refused_and_nothing_written(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "thesis.tex").touch()
    assert cli.main(["reproduce", *arguments]) == 2
    assert said in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["taken", "thesis.tex"]


def test_a_file_in_the_way_is_refused(tiny: None, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(FolderError, match="not written by knee reproduce"):
        running.reproduce([PAPER], tmp_path / "file")


@pytest.mark.parametrize(
    ("words", "keys"),
    [
        (["lola", "fig4"], {"lola": ["fig4a", "fig4b", "fig4c", "fig4d"]}),
        (["cocoa", "fig1", "table1", "lola", "fig5"], {"cocoa": ["fig1", "table1"], "lola": ["fig5"]}),
        (["fast", "fast"], {"fast": ["backlog", "weights", "two-links"]}),
    ],
)
def test_some_experiments_of_a_paper_are_chosen_by_their_keys(words: list[str], keys: dict[str, list[str]]) -> None:
    chosen = recipes.chosen(words)
    assert {paper.key: [each.key for each in paper.experiments] for paper in chosen} == keys


def test_every_experiment_can_be_run_by_its_key() -> None:
    for name in recipes.NAMES:
        # A key that is also the name of a paper stands for that paper.
        for experiment in (each for each in recipes.paper(name).experiments if each.key not in recipes.NAMES):
            (cut,) = recipes.chosen([name, experiment.key])
            assert experiment in cut.experiments


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["fig4"], 'There is no paper "fig4"; there are: lola'),
        (["lola", "fig9"], '"fig9" is neither a paper nor an experiment of lola; '),
        (["lola", ""], '"" is neither a paper nor an experiment of lola; '),
    ],
)
def test_an_experiment_that_is_not_there_is_refused_with_those_that_are(words: list[str], says: str) -> None:
    with pytest.raises(InputError) as refused:
        recipes.chosen(words)
    assert says in str(refused.value)


def test_two_runs_of_one_name_must_be_one() -> None:
    experiments = [
        Experiment(key=name, runs=[Run("same", DATA, changes)], measure=lambda r: {})
        for name, changes in (("a", ["duration=1 s"]), ("b", ["duration=2 s"]))
    ]
    with pytest.raises(ValueError, match="same"):
        Paper("p", experiments).runs()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(items, "load", lambda key: Items.model_validate(ITEMS))
        patch.setattr("knee.papers.recipes.NAMES", ("tiny",))
        out = tmp_path_factory.mktemp("pages")
        running.reproduce([PAPER], out)
        yield out


SORT = """
const verdicts = () => [...document.querySelectorAll("#summary tbody tr")].map((row) => row.cells[3].textContent);
const heads = document.querySelectorAll("#summary thead th");
const seen = [verdicts()];
for (const column of [3, 3, 0]) { heads[column].click(); seen.push(verdicts()); }
return seen;
"""


@needs_chromium
def test_the_summary_sorts_on_a_click_without_console_errors(pages: Path) -> None:
    told = look(pages / "report.html", probe=SORT)
    assert told["console"] == []
    as_in_paper = ["reproduced", "differs, explained", "differs, cause unknown", "reproduced"]
    assert told["probe"] == [as_in_paper, sorted(as_in_paper), sorted(as_in_paper, reverse=True), as_in_paper]


@needs_chromium
def test_every_figure_of_a_papers_page_is_drawn(pages: Path) -> None:
    told = look(pages / "tiny.html", probe="return document.querySelector('h1').textContent")
    assert (told["charts"], told["images"], told["console"], told["probe"]) == (1, 0, [], "A tiny <paper>")


@needs_chromium
def test_a_matrix_may_stand_on_a_papers_page(pages: Path) -> None:
    probe = """
    const queue = document.querySelector(".matrix-filter select");
    queue.value = "fq_codel";
    queue.dispatchEvent(new Event("input", { bubbles: true }));
    const link = document.querySelector(".matrix-run a").getAttribute("href");
    return [document.querySelectorAll(".matrix-maps td").length, link];
    """
    told = look(pages / "tiny.html", probe=probe)
    assert told["probe"] == [4 * 4, "runs/fq_codel/cubic--bbr/scenario.toml"]
    assert told["console"] == []


@needs_chromium
@pytest.mark.parametrize("width", [PHONE, DESKTOP])
@pytest.mark.parametrize("page", ["report.html", "tiny.html"])
def test_pages_fit_a_phone_and_a_desktop(pages: Path, page: str, width: int) -> None:
    check_layout(pages / page, width, tallest=3500)


@needs_chromium
def test_the_look_sees_what_is_wrong(tmp_path: Path) -> None:
    """The tests of pages can fail: broken images, errors, refused scripts, width, texts over each other, cut tables."""
    page = tmp_path / "bad.html"
    wide = '<p style="width: 500px">wide</p>'
    policy = "<meta http-equiv=Content-Security-Policy content=\"script-src 'sha256-AAAA'\">"
    text = '<text y="20">one</text><text y="22">two</text>'
    chart = f'<div class="chart" id="chart"><svg>{text}</svg></div>'
    image = '<img alt="x" src="data:image/png;base64,AAAA">'
    page.write_text(f"<html><head></head><body>{wide}{image}{chart}<script>boom()</script></body>")
    told = look(page)
    assert told["broken"] == ["x"]
    assert any("boom" in line for line in told["console"])
    assert told["overlaps"] == ["chart: one | two"]
    assert look(page, PHONE)["width"] > PHONE
    table = "<table><tr><td>first</td><td style='min-width: 500px'>second</td></tr></table>"
    screen = "<meta name=viewport content='width=device-width'>"
    for style, words in (("hidden", "cut off"), ("auto", "scrolls without a sign of it")):
        page.write_text(f"{screen}<div id=it style='overflow-x: {style}; height: 99px'>{table}</div>")
        with pytest.raises(AssertionError, match=f"it: {words}"):
            check_layout(page, PHONE, 9000)
        assert check_layout(page, DESKTOP, 9000)
    page.write_text(f"<html><head>{policy}</head><body><script>1</script></body>")
    assert any("Content Security Policy" in line for line in look(page)["console"])
