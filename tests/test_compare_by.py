"""``knee compare SWEEP --by KEY``: variants of a sweep, network by network."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knee.cli import main
from knee.errors import InputError
from knee.figures.register import RUN
from knee.figures.signed_ranks import _least_rank, differences
from knee.study import sweeps
from knee.study.sweeps import Sweep, sweepfile
from knee.system import extras

#: Without scipy, whose p for tied pairs is one of thousands of permutations.
without_scipy = pytest.mark.usefixtures("no_scipy")
VALUES = st.lists(st.tuples(*[st.integers(-40, 40).map(lambda n: n / 8)] * 2), min_size=1, max_size=60)
SWEEP = """
duration = "1 s"
link = { rate = "10 Mbit/s", limit = "50 packets", loss = 0.002 }
flows = [{ cc = "reno", rtt = "20 ms" }]
[sweep]
seeds = 2
[sweep.over]
link.rate = ["4 Mbit/s", "8 Mbit/s", "16 Mbit/s"]
flows.0.cc = ["reno", "cubic", "lola"]
flows.0.rtt = ["10 ms", "40 ms"]
"""


@pytest.fixture(scope="class")
def no_scipy() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("knee.figures.signed_ranks.extras.there", lambda package: False)
        yield


@without_scipy
@given(VALUES)
def test_estimate_and_interval_are_those_of_the_sorted_means_of_two(pairs: list[tuple[float, float]]) -> None:
    first, other = zip(*pairs, strict=True)
    change = np.subtract(other, first)
    means = np.sort([(change[i] + change[j]) / 2 for i in range(len(change)) for j in range(i, len(change))])
    found = differences(first, other)
    assert found.shift == pytest.approx(float(np.median(means)), abs=1e-12)
    least = _least_rank(len(change))
    if least:
        assert (found.low, found.high) == pytest.approx((means[least - 1], means[-least]), abs=1e-12)
    else:
        assert len(change) < 6
        assert (found.low, found.high) == (None, None)


@without_scipy
@given(VALUES)
def test_what_is_better_for_one_is_worse_for_the_other(pairs: list[tuple[float, float]]) -> None:
    first, other = zip(*pairs, strict=True)
    there, back = differences(first, other), differences(other, first)
    assert (there.more, there.less, there.same) == (back.less, back.more, back.same)
    assert there.more + there.less + there.same == len(pairs)
    assert (there.shift, there.effect) == pytest.approx((-back.shift, -back.effect), abs=1e-9)
    goodput, loss, marks = (RUN[name] for name in ("goodput_mbps", "loss", "marks"))
    assert there.wins(goodput) == back.wins(loss) == (there.more, there.less)
    assert there.wins(marks) is None
    assert there.verdict(goodput) == back.verdict(loss)


def test_the_interval_is_that_of_published_critical_values() -> None:
    """Two-sided 5 %: T = 0, 8, 52 and 434 for 6, 10, 20 and 50 pairs (Wilcoxon and Wilcox 1964, table 2)."""
    assert [_least_rank(count) for count in (5, 6, 10, 20, 50)] == [0, 1, 9, 53, 435]
    # One more than the table's last, by the normal distribution.
    assert _least_rank(51) == pytest.approx(454, abs=2)


def test_a_worked_example() -> None:
    """Differences 1, 2, 3, 4, 5, -6: ranks of the positive ones 15 of 21, so the effect is 9/21."""
    found = differences([0] * 6, [1, 2, 3, 4, 5, -6])
    assert found.effect == pytest.approx(9 / 21)
    assert (found.low, found.high, found.clear) == (-6, 5, False)
    assert (found.more, found.less, found.same) == (5, 1, 0)
    # Sums of at most 6 come about in 14 of 64 ways (1 for 0, 1, 2; 2 for 3, 4; 3 for 5; 4 for 6), on either side.
    assert found.p == pytest.approx(2 * 14 / 64)
    assert differences([3, 3], [3, 3]).p == 1.0


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    folder = tmp_path_factory.mktemp("compare-by")
    (folder / "many.toml").write_text(SWEEP)
    return sweeps.run_sweep(sweepfile.read(str(folder / "many.toml"), ()), folder / "made", jobs=1)


@pytest.mark.parametrize("key", ["link.rate", "flows.0.cc", "flows.0.rtt"])
def test_the_runs_of_a_network_differ_in_nothing_but_the_key_and_the_seed(made: Sweep, key: str) -> None:
    found = made.paired(key)
    rest = []
    for runs in found.runs:
        points = [made.point(run).values for run in runs]
        assert [str(values.pop(key)) for values in points] == [variant.name for variant in found.variants]
        assert all(values == points[0] for values in points)
        rest.append(str(points[0]))
    assert len(set(rest)) == len(rest) == found.networks == len(made) / 2 / len(found.variants)


def test_figures_are_means_over_the_seeds(made: Sweep) -> None:
    found = made.paired("flows.0.cc")
    runs = {row["run"]: row for row in made.runs.collect().iter_rows(named=True)}
    for variant, mine in zip(found.variants, zip(*found.runs, strict=True), strict=True):
        for run, figures in zip(mine, variant.figures, strict=True):
            assert figures["goodput_mbps"] == pytest.approx(
                (runs[run]["goodput_mbps"] + runs[run + 1]["goodput_mbps"]) / 2
            )


def test_an_axis_of_seeds_is_no_axis_of_networks(tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text(SWEEP.split("[sweep]", maxsplit=1)[0])
    over = ["link.rate=4 Mbit/s,8 Mbit/s", "seed=1,2", "flows.0.cc=reno,cubic"]
    made = sweeps.run_sweep(sweepfile.read(str(tmp_path / "one.toml"), over), tmp_path / "made", jobs=1)
    found = made.paired("flows.0.cc")
    assert (found.networks, found.seeds) == (2, 2)
    runs = {row["run"]: row["goodput_mbps"] for row in made.runs.collect().iter_rows(named=True)}
    assert found.variants[0].figures[0]["goodput_mbps"] == pytest.approx((runs[1] + runs[3]) / 2)


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("flows.cc", "did you mean flows.0.cc"),
        ("seed", "has no axis"),
    ],
)
def test_what_is_no_axis_is_refused(made: Sweep, key: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        made.paired(key)


def test_axes_that_cannot_be_paired_are_refused(tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text(SWEEP.split("[sweep]", maxsplit=1)[0])

    def refused(over: list[str], key: str, **more: object) -> str:
        definition = sweepfile.read(str(tmp_path / "one.toml"), over, **more)  # type: ignore[arg-type]
        with pytest.raises(InputError) as error:
            Sweep(tmp_path, definition, {}).paired(key)
        return str(error.value)

    assert "more than once" in refused(
        ["flows.0.cc=reno,reno,cubic", "link.rate=4 Mbit/s,8 Mbit/s,9 Mbit/s"],
        "flows.0.cc",
        zip=[["flows.0.cc", "link.rate"]],
    )
    assert "sampled together" in refused(
        ["link.rate=uniform(4 Mbit/s, 9 Mbit/s)", "flows.0.rtt=uniform(4 ms, 9 ms)"], "link.rate", samples=3
    )
    assert "has only the value reno" in refused(["flows.0.cc=reno", "link.rate=4 Mbit/s,8 Mbit/s"], "flows.0.cc")
    assert "follows from" in refused(
        ["link.rate=4 Mbit/s,8 Mbit/s"], "link.limit", derive=["link.limit=link.rate * flows.0.rtt"]
    )


def test_the_command_prints_writes_and_gives_json(
    made: Sweep, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = str(made.folder)
    assert main(["compare", folder, "--by", "flows.0.cc", "--out", str(tmp_path / "page")]) == 0
    text = capsys.readouterr().out
    assert "cubic against reno in 6 networks, by flows.0.cc" in text
    assert "lola against reno in 6 networks" in text
    assert "lola against reno" in (tmp_path / "page" / "compare.html").read_text(encoding="utf-8")
    assert main(["compare", folder, "--by", "flows.0.cc", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    lola = told["comparisons"][1]
    assert (told["first"], lola["other"], told["networks"], told["seeds"]) == ("reno", "lola", 6, 2)
    delay = lola["figures"]["queue_delay_mean_ms"]
    assert delay["wins"] == delay["lower"]
    assert delay["wins"] + delay["losses"] + delay["same"] == 6
    assert delay["p"] is not None
    there = extras.there
    monkeypatch.setattr(extras, "there", lambda package: package != "scipy" and there(package))
    assert main(["compare", folder, "--by", "flows.0.cc"]) == 0
    assert "scipy is not installed, so there is no p" in capsys.readouterr().err
    for folders in ([folder], [folder, folder, "--by", "flows.0.cc"], [str(tmp_path), "--by", "flows.0.cc"]):
        assert main(["compare", *folders]) == 2
        assert capsys.readouterr().err.count("\n") == 1
