"""What the cocoa paper (Bachl et al., BS 2019) claims, held by the scenarios of its figures."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import polars as pl

import knee


@cache
def run(name: str) -> knee.Result:
    return knee.run(name)


def goodput(name: str) -> float:
    """Mbit/s."""
    value: float = run(name).summary["flows"][0]["goodput_mbps"]
    return value


def queued(name: str, start: float, end: float) -> pl.Series:
    """Mean queueing delays of the intervals from `start` to `end` (s), ms."""
    return run(name).links.filter(pl.col("t_s").is_between(start, end)).get_column("queue_delay_mean_ms")


def carried(name: str, start: float, end: float) -> float:
    """Mean use of the link from `start` to `end`, s."""
    rows = run(name).links.filter(pl.col("t_s").is_between(start, end))
    return float(rows.get_column("utilization").to_numpy().mean())


def notes(name: str, event: str) -> pl.DataFrame:
    """What the queue noted of the flow."""
    return run(name).events.filter(pl.col("link").is_not_null() & (pl.col("event").cast(pl.String) == event))


def test_fig1_a_buffer_that_is_too_small_grows_until_the_link_is_used_all_the_time() -> None:
    sizes = notes("cocoa-fig1", "buffer").get_column("value").to_list()
    assert sizes[0] == 10
    assert sizes == sorted(sizes)
    assert notes("cocoa-fig1", "enlarge").get_column("value").max() > 0  # type: ignore[operator]
    assert carried("cocoa-fig1", 1, 4) < 0.95 < 0.99 < carried("cocoa-fig1", 10, 20)


def test_fig2_a_buffer_that_is_too_large_shrinks_until_no_queue_stands() -> None:
    sizes = notes("cocoa-fig2", "buffer").get_column("value").to_list()
    assert (sizes[0], sizes) == (100, sorted(sizes, reverse=True))
    backlog = notes("cocoa-fig2", "backlog")
    # The standing queue is the least of an interval (Section 2): first 67 packets, and none from 10 s on.
    first, last = (
        backlog.filter(pl.col("t_s").is_between(*span)).get_column("value").min() for span in ((1.5, 3), (10, 20))
    )
    assert first > 60 > 2 > last  # type: ignore[operator]
    reduced = notes("cocoa-fig2", "reduce")
    assert reduced.get_column("value")[0] == 67
    assert reduced.filter(pl.col("t_s") > 10).get_column("value").sum() == 0
    assert carried("cocoa-fig2", 10, 20) > 0.99


def test_fig3_a_guard_interval_outlasts_half_of_the_longest_interval_before() -> None:
    starts = notes("cocoa-fig3", "guard_interval").get_column("t_s").to_list()
    least = notes("cocoa-fig3", "guard_interval").get_column("value").to_list()
    longest = notes("cocoa-fig3", "longest_interval").get_column("value").to_list()
    # Section 2.3: at least the multiplier of 0.5 times the longest interval, but no more than 1 s of it.
    assert least == [min(0.5 * length, 1.0) for length in longest]
    assert all(b - a >= wait for (a, b), wait in zip(pairwise(starts), least, strict=False))
    # "Each guard interval contains one or more intervals": some of these have several.
    losses = notes("cocoa-fig3", "loss").get_column("t_s")
    inside = [int(losses.is_between(a, b).sum()) for a, b in pairwise(starts)]
    assert max(inside) > 1
    assert min(inside) == 0


def test_figs_4_to_6_cocoa_has_no_standing_queue_at_the_throughput_of_fq() -> None:
    # Fig. 4: "a standing queue ... after the bandwidth halves, the minimum delay is 100 ms even though 10 ms would be
    # possible". 100 packets of 1514 bytes take 60 ms at 20 Mbit/s, 121 ms at 10.
    assert queued("cocoa-fig4", 5, 30).min() > 30  # type: ignore[operator]
    assert queued("cocoa-fig4", 35, 60).min() > 75  # type: ignore[operator]
    # Figs. 5 and 6: full throughput, and no standing queue beyond a packet or two before and after the change.
    for name, rate_before, rate_after in (("cocoa-fig5", 20, 10), ("cocoa-fig6", 20, 40)):
        for start, end, rate in ((10, 30, rate_before), (40, 60, rate_after)):
            packet_ms = 1514 * 8 / rate / 1000
            assert queued(name, start, end).min() < 5 * packet_ms, (name, start)  # type: ignore[operator]
            assert carried(name, start, end) > 0.97, (name, start)
    assert goodput("cocoa-fig5") > 0.99 * goodput("cocoa-fig4")


def test_figs_7_and_8_cocoa_carries_more_than_fq_codel_at_100_ms() -> None:
    # 2893 MB against 2615 MB in 240 s are 10.6 % more; asked for are 8.
    assert goodput("cocoa-fig8") > 1.08 * goodput("cocoa-fig7")


def test_section_4_reno_at_50_ms_gains_more() -> None:
    # "cocoa achieves more than 20 % higher throughput than fq_codel"; asked for are 15.
    assert goodput("cocoa-reno-cocoa") > 1.15 * goodput("cocoa-reno-fq_codel")


def test_fig9_bbr_has_its_throughput_without_a_standing_queue() -> None:
    # Nothing is dropped: of 100 packets BBR fills no more than its own bursts, about 10 packets on average, on the
    # authors' kernel too (13.45 ms smoothed at the end, in the reference).
    for start, end in ((5, 30), (35, 60)):
        backlog = notes("cocoa-fig9", "backlog").filter(pl.col("t_s").is_between(start, end)).get_column("value")
        assert backlog.mean() < 12  # type: ignore[operator]
        assert backlog.max() < 25  # type: ignore[operator]
        assert carried("cocoa-fig9", start, end) > 0.95


def test_section_2_1_a_multiplier_of_half_cuts_the_buffer_of_bbr_and_that_of_the_paper_does_not() -> None:
    # "the interval between adjacent packet losses is considered the longest interval and ... the buffer is cut to
    # virtually nothing because a standing queue is assumed"; the multiplier "must be larger than 1".
    half, papers = (notes(name, "buffer").get_column("value") for name in ("cocoa-bbr-half", "cocoa-bbr"))
    assert (half.min(), papers.min()) == (1, 100)
    # It does so because Algorithm 1 has it so: the guard interval lasts half of the longest interval before it.
    longest, guard = (notes("cocoa-bbr-half", f"{what}_interval").get_column("value") for what in ("longest", "guard"))
    assert ((guard - (0.5 * longest).clip(upper_bound=1.0)).abs() < 2e-9).all()
    # The buffer recovers, since cocoa enlarges it for the time in which the link idles: the throughput is the same.
    assert half.max() >= 100  # type: ignore[operator]
    assert goodput("cocoa-bbr-half") > 0.99 * goodput("cocoa-bbr") > 0.99 * 0.95 * 200 * 1448 / 1514
