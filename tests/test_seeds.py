"""``knee.run(seeds=...)``: one scenario with several seeds, as ``knee run --seeds``."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import knee
from knee.cli import main
from knee.errors import InputError
from knee.grounds import memory
from knee.results import folder, result

TINY = """
duration = "1 s"
seed = 5
link = { rate = "10 Mbit/s", limit = "50 packets", loss = 0.01 }
flows = [{ cc = "reno", rtt = "20 ms", count = 2 }]
"""


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.toml").write_text(TINY)
    return tmp_path


def test_a_number_of_seeds_counts_up_from_the_scenarios(tiny: Path) -> None:
    results = knee.run("tiny.toml", seeds=3)
    assert [one.summary["seed"] for one in results] == [5, 6, 7]
    alone = knee.run("tiny.toml", set=["seed=6"])
    assert results[1].samples.equals(alone.samples)
    assert not results[0].samples.equals(alone.samples)
    assert list(tiny.iterdir()) == [tiny / "tiny.toml"]


def test_a_list_names_the_seeds(tiny: Path) -> None:
    assert [one.summary["seed"] for one in knee.run("tiny.toml", seeds=[9, 2])] == [9, 2]
    assert [one.summary["seed"] for one in knee.run("tiny.toml", seeds=range(2))] == [0, 1]


def test_folders_are_those_of_the_command(tiny: Path) -> None:
    results = knee.run("tiny.toml", seeds=2, out="py", png=True)
    assert main(["run", "tiny.toml", "--seeds", "2", "--out", "cli", "--png"]) == 0
    names = sorted(str(path.relative_to("py")) for path in Path("py").rglob("*"))
    assert names == sorted(str(path.relative_to("cli")) for path in Path("cli").rglob("*"))
    assert {"tiny-seed5/report.html", "tiny-seed6/summary.json"} <= set(names)
    assert knee.open("py/tiny-seed6").samples.equals(results[1].samples)


@pytest.mark.parametrize(
    ("seeds", "words"),
    [
        (0, "seeds: 0 is out of range; expected 1 or more, or a list of seeds"),
        ([], "seeds: the list is empty"),
        ([1, 1], "seeds: 1 is there twice"),
        ([-1], "seeds: -1 is no seed; expected whole numbers from 0 to 9223372036854775807"),
        (["1"], 'seeds: "1" is no seed'),
        (True, "seeds: true has the wrong type"),
        (2.5, "seeds: 2.5 has the wrong type"),
    ],
)
def test_what_are_no_seeds_is_refused(tiny: Path, seeds: Any, words: str) -> None:
    with pytest.raises(InputError) as caught:
        knee.run("tiny.toml", seeds=seeds, out="never")
    assert words in str(caught.value)
    assert not Path("never").exists()


def test_seeds_that_give_the_same_figures_say_so_as_the_command_does(
    tiny: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for chance, wanted in ((0.0, 1), (0.01, 0)):
        changes = [f"link.loss={chance}"]
        results = knee.run("tiny.toml", seeds=3, set=changes, out="out", report=False)
        remarks = [[text for text in one.summary.get("remarks", ()) if "All seeds" in text] for one in results]
        assert [len(said) for said in remarks] == [wanted] * 3
        # Which is said of several runs, and the folder has one.
        assert "All seeds" not in Path("out/tiny-seed6/summary.json").read_text()
        assert main(["run", "tiny.toml", "--seeds", "3", "--set", changes[0], "--out", "o", "--no-report"]) == 0
        printed = capsys.readouterr().out
        assert ("All seeds gave the same figures" in printed) == bool(wanted)
        assert all(text in printed for said in remarks for text in said)


def test_a_class_runs_with_several_seeds(tiny: Path) -> None:
    class Mine(knee.CongestionControl):
        """Reno."""

    link = {"rate": "10 Mbit/s", "limit": "50 packets", "loss": 0.01}
    data = {"duration": "1 s", "link": link, "flows": [{"cc": Mine, "rtt": "20 ms"}]}
    assert [one.summary["seed"] for one in knee.run(data, seeds=2)] == [1, 2]


@pytest.mark.parametrize(("count", "wanted"), [(1, None), (2, pytest.approx(1, abs=0.5))])
def test_a_flow_alone_has_no_index_of_fairness_in_a_sweep(tiny: Path, count: int, wanted: Any) -> None:
    """Nothing is shared, so 1.000 would be a claim about nothing."""
    summary = knee.run("tiny.toml", set=[f"flows.0.count={count}"]).summary
    assert summary["run"]["jain"] == wanted
    assert summary["run"]["jain_interval_mean"] == wanted


def test_a_list_of_one_element_is_called_so(tiny: Path) -> None:
    with pytest.raises(InputError, match=r'the list has no element "7"; expected 0, its only element'):
        knee.run("tiny.toml", set=["flows.7.rtt=5 ms"])


def test_several_seeds_are_checked_sealed_and_loaded_once(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And as many of them as there are seeds, however they are asked for."""
    calls: Counter[str] = Counter()

    def counted(module: Any, name: str) -> None:
        real = getattr(module, name)

        def call(*args: Any, **named: Any) -> Any:
            calls[name] += 1
            return real(*args, **named)

        monkeypatch.setattr(module, name, call)

    counted(memory, "check")
    counted(folder, "_swap_in")
    counted(result, "seal")
    counted(knee.Result, "load")
    wanted = Counter({"check": 1, "_swap_in": 3, "seal": 3})
    knee.run("tiny.toml", seeds=3, out="py", check=True)
    assert calls == wanted
    assert main(["run", "tiny.toml", "--seeds", "3", "--out", "cli", "--check"]) == 0
    assert calls == wanted + wanted
    calls.clear()
    assert main(["run", "tiny.toml", "--check"]) == 0
    assert calls == Counter({"check": 1, "_swap_in": 1, "seal": 1})


@pytest.mark.parametrize(
    ("cc", "transport"), [("bbr3", "tcp"), ("bbr", "tcp"), ("vivace", "tcp"), ("bbr3", "quic"), ("quinn:cubic", "quic")]
)
def test_a_flow_before_another_changes_none_of_its_random_numbers(cc: str, transport: str) -> None:
    links = [{"name": name, "rate": "20 Mbit/s", "limit": "100 packets"} for name in ("a", "b")]
    watched = {"label": "watched", "cc": cc, "transport": transport, "rtt": "30 ms", "path": ["a"]}
    other = {"label": "other", "cc": "cubic", "rtt": "30 ms", "path": ["b"]}

    def samples(flows: list[dict[str, Any]]) -> Any:
        run = knee.run({"duration": "12 s", "links": links, "flows": flows})
        number = [flow["label"] for flow in run.summary["flows"]].index("watched")
        return run.samples.filter(run.samples["flow"] == run.samples["flow"].unique().sort()[number]).drop("flow")

    assert samples([watched]).equals(samples([other, watched]))
