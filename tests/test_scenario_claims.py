"""The comments of the shipped scenarios are true: each sentence that says what happens is checked by a run.

Every sentence of a head comment is either a claim, with a check, or it describes the setup or what a paper shows. A
sentence that is neither fails :func:`test_every_sentence_is_known`, so that a changed comment needs a changed check.
"""

from __future__ import annotations

import itertools
import re
import statistics
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import knee
from knee.scenario import load

SCENARIOS = Path(knee.__file__).parent / "scenarios"

#: What a sentence may begin with that tells of a paper instead of the run; ``knee reproduce`` judges those.
OF_A_PAPER = re.compile(
    r"The paper\b|It (says|does not say|warns)\b|Cocoa \(|TCPLoLa \(|Interactions \(|Delay-based AIMD \("
    r"|Sec\.|[IVX]+[,-]"
    r"|Senders and receivers of Linux"
)

Check = Callable[[], bool]


@cache
def run(name: str, *changes: str) -> knee.Result:
    """A scenario's result, with changes as ``--set`` has them."""
    return knee.run(load(name, changes))


def flow(name: str, label: str = "flow 1", *changes: str) -> dict[str, Any]:
    return next(each for each in run(name, *changes).summary["flows"] if each["label"] == label)


def link(name: str, *changes: str) -> dict[str, Any]:
    figures: dict[str, Any] = run(name, *changes).summary["links"][0]
    return figures


def lost(name: str, *changes: str) -> float:
    """The share of the first flow's packets that was lost."""
    figures = flow(name, "flow 1", *changes)
    return float(figures["lost_packets"] / figures["sent_packets"])


def passed(start: float, end: float) -> float:
    """Datagrams that arrived in `token-bucket` from `start` to `end`, s."""
    rows = run("token-bucket").delays.filter(pl.col("t_s").is_between(start + 1e-6, end + 1e-6))
    return float(rows["received"].sum())


def notes(name: str, event: str, start: float = 0, end: float = 1e9) -> list[float]:
    """The values that a queue noted of its flow from `start` to `end`, s."""
    rows = run(name).events.filter(pl.col("link").is_not_null() & (pl.col("event").cast(pl.String) == event))
    return rows.filter(pl.col("t_s").is_between(start, end)).get_column("value").to_list()


def recoveries(name: str, *changes: str) -> int:
    """How many times the only flow of a scenario reduced its window."""
    return run(name, *changes).events.filter(pl.col("event").cast(pl.String) == "recovery").height


def time_at_most(packets: int, name: str) -> float:
    """For how long cocoa kept a buffer of at most `packets`, s."""
    rows = run(name).events.filter(pl.col("event").cast(pl.String) == "buffer").select("t_s", "value").rows()
    ends = [*(t for t, _ in rows[1:]), run(name).summary["duration_s"]]
    return float(sum(end - t for (t, value), end in zip(rows, ends, strict=True) if value <= packets))


def idles_after_each_loss(name: str, start: float) -> bool:
    """Whether the link carries less than 0.7 of its rate in some interval between any two losses a second apart."""
    rows = run(name).links.filter(pl.col("t_s") > start).select("t_s", "drops", "utilization").rows()
    losses = [number for number, (_, drops, _) in enumerate(rows) if drops]
    apart = [(a, b) for a, b in itertools.pairwise(losses) if rows[b][0] - rows[a][0] > 1]
    return len(apart) >= 3 and all(min(rows[number][2] for number in range(a, b)) < 0.7 for a, b in apart)


def bursts(label: str) -> float:
    """How long the slowest burst of a flow took, ms; all ten must be complete."""
    done = run("bursts-after-idle").completions.filter(pl.col("label") == label)
    assert done.height == 10
    return float(done["time_ms"].max())  # type: ignore[arg-type]


def bbr_half_buffers() -> list[pl.DataFrame]:
    """The buffers that cocoa chose in each of ten seeds."""
    events = (run("cocoa-bbr-half", f"seed={seed}").events for seed in range(1, 11))
    return [each.filter(pl.col("event").cast(pl.String) == "buffer").select("t_s", "value") for each in events]


def bbr_half_cuts() -> bool:
    cuts = [int((each["value"] == 1).sum()) for each in bbr_half_buffers()]
    return (min(cuts), max(cuts)) == (276, 316)


def bbr_half_stays() -> bool:
    def large(rows: pl.DataFrame) -> float:
        ends = [*rows["t_s"].to_list()[1:], 60.0]
        return float(sum(end - t for (t, value), end in zip(rows.rows(), ends, strict=True) if value >= 100))

    return min(large(each) for each in bbr_half_buffers()) > 55


def bbr_half_costs() -> bool:
    papers, half = (
        [flow(name, "flow 1", f"seed={seed}") for seed in range(1, 11)] for name in ("cocoa-bbr", "cocoa-bbr-half")
    )
    same = all(abs(b["goodput_mbps"] / a["goodput_mbps"] - 1) < 0.01 for a, b in zip(papers, half, strict=True))
    more = [b["lost_packets"] - a["lost_packets"] for a, b in zip(papers, half, strict=True)]
    return same and (round(min(more), -2), round(max(more), -2)) == (1000, 1500)


def near(value: float, wanted: float, digits: int = 0) -> bool:
    """Whether a figure, rounded as the sentence rounds it, is the one of the sentence."""
    return round(value, digits) == wanted


def samples(name: str, column: str, start: float, end: float, label: str | None = None) -> pl.Series:
    rows = run(name).samples.filter(pl.col("t_s").is_between(start, end, closed="right"))
    if label is not None:
        number = flow(name, label)["flow"]
        rows = rows.filter(pl.col("flow") == number)
    return rows.get_column(column)


def reductions(name: str, label: str) -> int:
    """Falls of a flow's congestion window by more than a tenth, from one interval to the next."""
    cwnd = samples(name, "cwnd_packets", 0, 1e9, label).to_list()
    return sum(after < 0.9 * before for before, after in itertools.pairwise(cwnd))


def steps_with_an_empty_queue(name: str, step: float) -> bool:
    """Whether RTTs of LoLa, in whose queue are only its own packets, differ by `step` (ms) or more."""
    least = samples(name, "rtt_min_ms", 25, 40, "LoLa").min()
    greatest = samples(name, "rtt_max_ms", 25, 40, "LoLa").max()
    return greatest - least >= step and flow(name, "LoLa")["queue_delay_mean_ms"] < 1  # type: ignore[operator]


def varies_within_a_second(name: str, label: str) -> bool:
    """Whether the goodput of an interval of 100 ms differs by a half from its neighbour's several times a second."""
    rates = samples(name, "goodput_mbps", 5, 15, label).to_list()
    changes = sum(abs(a - b) > 0.25 * max(a, b) for a, b in itertools.pairwise(rates))
    return changes >= 20


def gcc_cycles() -> int:
    """How many times GCC's rate falls by a tenth or more from one second to the next."""
    rates = samples("gcc-alone", "sending_rate_mbps", 60, 300).to_numpy().reshape(-1, 10).mean(axis=1)
    return sum(after < 0.9 * before for before, after in itertools.pairwise(rates))


def mean_goodput(name: str, *changes: str) -> float:
    """The first flow's goodput over eight seeds, Mbit/s."""
    return statistics.fmean(flow(name, "flow 1", f"seed={seed}", *changes)["goodput_mbps"] for seed in range(1, 9))


def leo_steps() -> bool:
    """Whether each reconfiguration (12, 27, 42, 57 s) changes the least RTT of LoLa by half a millisecond or more."""
    spans = [(8, 12), (14, 27), (29, 42), (44, 57)]
    least = [samples("leo", "rtt_min_ms", *span, "LoLa").min() for span in spans]
    return all(abs(a - b) > 0.5 for a, b in itertools.pairwise(least))  # type: ignore[operator]


CLAIMS: dict[str, dict[str, Check]] = {
    "adsl": {
        "Expect the download to get 7.9 Mbit/s with RTTs of 54 ms, little less than alone.": (
            lambda: (
                round(flow("adsl", "download")["goodput_mbps"], 1) == 7.9
                and round(flow("adsl", "download")["rtt_mean_ms"]) == 54
                and flow("adsl", "download", "flows.1.bytes=1 B")["goodput_mbps"] < 8.1
            )
        ),
        "A shaper that neither knows of the cells nor thins the ACKs leaves it 4.0 Mbit/s, since its ACKs then wait in "
        "the modem behind the upload.": (
            lambda: (
                round(
                    flow(
                        "adsl",
                        "download",
                        "links.router.reverse.queue_params.overhead=raw",
                        "links.router.reverse.queue_params.ack_filter=no-ack-filter",
                    )["goodput_mbps"],
                    1,
                )
                == 4.0
            )
        ),
    },
    "bbr-10g": {
        "Expect BBR to fill nine tenths of the link after its start-up, and to count no more than the 1 % as lost.": (
            lambda: (
                flow("bbr-10g")["goodput_mbps"] > 8500
                and link("bbr-10g")["utilization"] > 0.9
                and 0.0095 < lost("bbr-10g") < 0.0105
            )
        ),
    },
    "bbr-random-loss": {
        "Expect BBR to get more than 200 times what CUBIC gets, since it takes no single loss for congestion.": (
            lambda: (
                flow("bbr-random-loss", "BBR")["goodput_mbps"] > 200 * flow("bbr-random-loss", "CUBIC")["goodput_mbps"]
            )
        ),
        "Without reordering a sender counts as lost what the link dropped and nothing else: within 2 %, which are "
        "still in flight at the end.": lambda: (
            0.98 * link("bbr-random-loss")["drops"]
            <= flow("bbr-random-loss", "BBR")["lost_packets"]
            <= link("bbr-random-loss")["drops"]
        ),
    },
    "dctcp-latecomers": {
        "Expect all to connect and to share the link equally, because SYN and SYN-ACK of an algorithm that needs ECN "
        "are ECN-capable (RFC 8257, section 3.6) and the queue marks them in place of dropping them.": lambda: (
            all(each["delivered_bytes"] > 0 for each in run("dctcp-latecomers").summary["flows"])
            and run("dctcp-latecomers").summary["fairness"]["jain"] > 0.99
            and link("dctcp-latecomers")["drops"] == 0
        ),
    },
    "l4s-beside-cubic": {
        "Expect Prague to get 1 to 2 times what CUBIC gets, and the link to be used to 0.98.": lambda: (
            1
            < flow("l4s-beside-cubic", "Prague")["goodput_mbps"] / flow("l4s-beside-cubic", "CUBIC")["goodput_mbps"]
            < 2
            and link("l4s-beside-cubic")["utilization"] > 0.98
        ),
    },
    "netem-jitter": {
        "Expect CUBIC to get less than a fifth of the link, although nothing is dropped: all losses are false.": (
            lambda: (
                flow("netem-jitter")["goodput_mbps"] < 20
                and link("netem-jitter")["drops"] == 0 < flow("netem-jitter")["lost_packets"]
            )
        ),
    },
    "pie-one-flow": {
        "Expect slow start's overshoot to cost 1200 to 1400 packets, all of them dropped by PIE and repaired without a "
        "timeout.": lambda: (
            1200 < flow("pie-one-flow")["lost_packets"] == link("pie-one-flow")["drops"] < 1400
            and flow("pie-one-flow")["timeouts"] == 0
        ),
        "What follows the repair overflows the buffer once more, so the window falls twice and 0.63 of the link is "
        "used over 10 s; with link.limit=1.2 MB it falls once, and 0.95 is used.": lambda: (
            recoveries("pie-one-flow") == 2
            and near(link("pie-one-flow")["utilization"], 0.63, 2)
            and recoveries("pie-one-flow", "link.limit=1.2 MB") == 1
            and near(link("pie-one-flow", "link.limit=1.2 MB")["utilization"], 0.95, 2)
        ),
    },
    "quic-random-loss": {
        "Expect 1.2 to 2.6 Mbit/s of 100, which is what quiche's issue 231 measured.": lambda: (
            1.2 < flow("quic-random-loss")["goodput_mbps"] < 2.6
        ),
    },
    "token-bucket": {
        "Expect the bucket to start full, as Linux's does: in the first 40 ms nothing waits, and 50 datagrams pass at "
        "the rate at which they come.": lambda: (
            run("token-bucket").links["queue_delay_max_ms"][:4].max() == 0
            and run("token-bucket").links["backlog_packets"][:4].max() == 0
            # Those of the first 40 ms arrive half a round trip later, each as long after the one before as it was sent.
            and run("token-bucket").delays["sent"][:4].sum() == 50
            and run("token-bucket").delays["owd_max_ms"][:4].max() == 5
        ),
        "Then it is empty, and one passes every 8.1 ms.": lambda: abs(passed(0.1, 0.2) - 100 / 8.112) <= 1,
    },
    "bursts-after-idle": {
        "Expect no burst to take a quarter longer than CUBIC's slowest.": (
            lambda: bursts("CUBIC") < max(bursts("LoLa"), bursts("delay-based AIMD")) < 1.25 * bursts("CUBIC")
        ),
    },
    "bursty-loss": {
        "Expect more goodput with bursts:": lambda: (
            flow("bursty-loss", "losses in bursts")["goodput_mbps"]
            > 1.5 * flow("bursty-loss", "single losses")["goodput_mbps"]
        ),
        "CUBIC reduces its window once per burst, so a fifth as often.": lambda: (
            # Per packet sent: the flow with bursts sends twice as many.
            0.15
            < (reductions("bursty-loss", "losses in bursts") / flow("bursty-loss", "losses in bursts")["sent_packets"])
            / (reductions("bursty-loss", "single losses") / flow("bursty-loss", "single losses")["sent_packets"])
            < 0.3
        ),
    },
    "cellular-lte": {
        "The buffer is deep: the queueing delay of a loss-based algorithm shows each valley of the capacity.": lambda: (
            link("cellular-lte")["queue_delay_max_ms"] > 1000 and link("cellular-lte")["utilization"] > 0.99
        ),
    },
    "delay-distributions": {
        "Expect LoLa to take the delay's variation for a queue: all but the first lose goodput, though none "
        "has a queue.": (
            lambda: all(
                flow("delay-distributions", label)["goodput_mbps"]
                < 0.7 * flow("delay-distributions", "steady")["goodput_mbps"]
                and flow("delay-distributions", label)["queue_delay_mean_ms"] < 0.5
                for label in ("uniform", "normal", "pareto")
            )
        ),
    },
    "docsis": {
        "Expect a least RTT of some 25 ms on a path of 20 ms, CUBIC with a mean queueing delay of 9 ms, and LoLa with "
        "6 ms.": lambda: (
            near(flow("docsis", "CUBIC")["rtt_min_ms"], 25)
            and near(flow("docsis", "CUBIC")["queue_delay_mean_ms"], 9)
            and near(flow("docsis", "LoLa")["queue_delay_mean_ms"], 6)
        ),
    },
    "game-beside-upload": {
        "A game at 60 Hz beside an upload: the client's reports wait in the same queue.": lambda: (
            abs(
                flow("game-beside-upload", "game, client")["queue_delay_mean_ms"]
                - flow("game-beside-upload", "upload")["queue_delay_mean_ms"]
            )
            < 1
        ),
    },
    "hello": {
        "CUBIC fills it until it drops and then takes back 30 % of its window: that leaves 70 % of three products, so "
        "the queue never empties, and after slow start each packet waits 20 to 40 ms.": lambda: (
            # The path has 20 ms; RTTs during recovery come from timestamps in milliseconds.
            40 <= samples("hello", "rtt_min_ms", 2, 10).min() <= samples("hello", "rtt_max_ms", 2, 10).max() < 61  # type: ignore[operator]
            and link("hello")["drops"] > 0
        ),
    },
    "l4s-home": {
        "Expect Prague to get almost twice CUBIC's rate down, 25 and 13 Mbit/s:": lambda: (
            near(flow("l4s-home", "Prague, down")["goodput_mbps"], 25)
            and near(flow("l4s-home", "CUBIC, down")["goodput_mbps"], 13)
        ),
        "CUBIC's packets wait for 18 ms in the classic queue, and its mean RTT is 16 ms longer than Prague's; Prague's "
        "wait for 0.3 ms there, and for 3.4 ms in the upload, most of it for grants.": lambda: (
            near(flow("l4s-home", "CUBIC, down")["queue_delay_mean_ms"], 18)
            and near(
                flow("l4s-home", "CUBIC, down")["rtt_mean_ms"] - flow("l4s-home", "Prague, down")["rtt_mean_ms"], 16
            )
            and near(flow("l4s-home", "Prague, down")["queue_delay_mean_ms"], 0.3, 1)
            and near(flow("l4s-home", "Prague, up")["queue_delay_mean_ms"], 3.4, 1)
        ),
        "No L4S packet is dropped, and both directions are in use to 99 %.": lambda: (
            flow("l4s-home", "Prague, down")["lost_packets"] == flow("l4s-home", "Prague, up")["lost_packets"] == 0
            and all(each["utilization"] > 0.985 for each in run("l4s-home").summary["links"])
        ),
    },
    "gcc-alone": {
        "It decreases to 85 % of what arrives and then adds half a packet per response time, so that it should use "
        "some nine tenths of the link with frames of equal size.": lambda: gcc_cycles() >= 10,
        "Expect it to use 80 to 95 % of the link, with a mean queueing delay of less than 20 ms.": lambda: (
            0.8 < link("gcc-alone")["utilization"] < 0.95 and link("gcc-alone")["queue_delay_mean_ms"] < 20
        ),
    },
    "leo": {
        "Expect steps of the RTT and of the rate at these times.": leo_steps,
        "LoLa takes a longer path for a queue until it measures its base RTT anew.": lambda: (
            flow("leo", "LoLa")["goodput_mbps"] < 0.75 * flow("leo", "CUBIC")["goodput_mbps"]
            and flow("leo", "LoLa")["queue_delay_mean_ms"] < 5
        ),
    },
    "starlink": {
        "Expect CUBIC to leave most of the link unused, since each burst of losses reduces its window, and 1 to 3 % "
        "of the packets to be lost.": lambda: (
            15 < mean_goodput("starlink") < 50
            and all(0.01 < lost("starlink", f"seed={seed}") < 0.03 for seed in (1, 2))
        ),
        "With BBR (--set flows.0.cc=bbr) expect four times as much.": lambda: (
            mean_goodput("starlink", "flows.0.cc=bbr") > max(110, 3 * mean_goodput("starlink"))
        ),
    },
    "lte": {
        "Expect a rate that varies several times a second, and RTTs in steps of 8 ms even with an empty "
        "queue.": lambda: varies_within_a_second("lte", "CUBIC") and steps_with_an_empty_queue("lte", 8),
        "CUBIC gets 38 Mbit/s, LoLa 0.9: it takes the steps for a queue, as docs/links.md explains.": lambda: (
            near(flow("lte", "CUBIC")["goodput_mbps"], 38) and near(flow("lte", "LoLa")["goodput_mbps"], 0.9, 1)
        ),
    },
    "nr": {
        "Expect a rate that varies several times a second, and RTTs in steps of 4 ms even with an empty "
        "queue.": lambda: varies_within_a_second("nr", "CUBIC") and steps_with_an_empty_queue("nr", 4),
        "CUBIC gets 145 Mbit/s, LoLa 6: it takes the steps for a queue, as docs/links.md explains.": lambda: (
            near(flow("nr", "CUBIC")["goodput_mbps"], 145) and near(flow("nr", "LoLa")["goodput_mbps"], 6)
        ),
    },
    "wifi": {
        "Expect CUBIC well below the PHY rate (70 Mbit/s), since contenders have most of the air, and RTTs "
        "that jump by "
        "tens of milliseconds from one aggregate to the next.": lambda: (
            near(flow("wifi", "CUBIC")["goodput_mbps"], 70)
            and samples("wifi", "rtt_max_ms", 25, 40, "LoLa").max()
            > samples("wifi", "rtt_min_ms", 25, 40, "LoLa").min() + 20  # type: ignore[operator]
        ),
        "LoLa takes these for a queue and gets 1 Mbit/s; docs/links.md says why.": lambda: near(
            flow("wifi", "LoLa")["goodput_mbps"], 1
        ),
    },
    "quic-vs-tcp": {
        "QUIC paces at 1.25 windows per round trip, its packets "
        "are smaller, its ACKs are acknowledged differently, and a reduction takes effect at once.": lambda: (
            flow("quic-vs-tcp", "QUIC")["sent_packets"] * flow("quic-vs-tcp", "TCP")["goodput_mbps"]
            > flow("quic-vs-tcp", "TCP")["sent_packets"] * flow("quic-vs-tcp", "QUIC")["goodput_mbps"]
        ),
    },
    "quic-cocoa": {
        "LoLa and delay-based AIMD over QUIC, and CUBIC over TCP, each with a queue of its own in cocoa, "
        "which gives each "
        "flow the buffer it needs. link.queue=pfifo or fq_codel shows what the others do with the same "
        "flows.": lambda: (
            link("quic-cocoa")["utilization"] > 0.99
            and max(each["goodput_mbps"] for each in run("quic-cocoa").summary["flows"])
            < 1.05 * min(each["goodput_mbps"] for each in run("quic-cocoa").summary["flows"])
        ),
    },
    "matrix": {
        "The jitter breaks the lockstep of two flows without noise, so that seeds differ; it is less than "
        "the time of one "
        "packet.": lambda: (
            flow("matrix", "flow 1")["goodput_mbps"] != flow("matrix", "flow 1", "seed=2")["goodput_mbps"]
        ),
    },
    "daimd-equals": {
        "Here 8 flows with a buffer of five times the bandwidth-delay product, 250 ms: they queue 5 ms.": lambda: (
            near(link("daimd-equals")["queue_delay_mean_ms"], 5) and link("daimd-equals")["drops"] == 0
        ),
        "With flows.0.cc_params.backoff_threshold=raised, Eq. 6's reading, they queue 14 ms.": lambda: near(
            link("daimd-equals", "flows.0.cc_params.backoff_threshold=raised")["queue_delay_mean_ms"], 14
        ),
    },
    "cocoa-bbr-half": {
        "So it comes: the buffer is cut to one packet 276 to 316 times in ten seeds.": bbr_half_cuts,
        "It does not stay so small: the link idles, for which cocoa enlarges the buffer, and for 55 of the 60 s it has "
        "at least the 100 packets of the start.": bbr_half_stays,
        "The goodput is that of cocoa-bbr within 1 %; 1000 to 1500 more packets are lost.": bbr_half_costs,
        "On the path of Fig. 9 the two multipliers make no difference, since 100 packets are more than BBR's "
        "probing needs "
        "there.": lambda: (
            abs(
                flow("cocoa-fig9", "flow 1", "link.queue_params.multiplier=0.5")["goodput_mbps"]
                - flow("cocoa-fig9")["goodput_mbps"]
            )
            < 0.01 * flow("cocoa-fig9")["goodput_mbps"]
        ),
    },
    "cocoa-fig1-fixed": {
        "A bandwidth-delay product is 66 packets; with a buffer of 15 the link idles after each loss.": lambda: (
            idles_after_each_loss("cocoa-fig1-fixed", 5)
        ),
    },
    "cocoa-fig1": {
        "It holds 10 packets, where CUBIC on this path needs some 30: after each loss the queue runs empty "
        "and the link "
        "idles. cocoa enlarges the buffer by what could have been sent meanwhile (green marks of the figure "
        '"Buffer per '
        'flow"), until the queue just stops running empty.': lambda: (
            notes("cocoa-fig1", "buffer") == [10, 20, 40]
            # What it needs: a fixed buffer of that size.
            and link("cocoa-fig1", "link.queue=fq", "link.queue_params={flow_limit=10}")["utilization"] < 0.92
            and link("cocoa-fig1", "link.queue=fq", "link.queue_params={flow_limit=30}")["utilization"] > 0.985
        ),
    },
    "cocoa-fig2-fixed": {
        "A bandwidth-delay product is 66 packets; with a buffer of 150 Reno's halved window leaves a queue that never "
        "drains.": lambda: (
            run("cocoa-fig2-fixed").links.filter(pl.col("t_s") > 5)["backlog_packets"].min() > 0  # type: ignore[operator]
        ),
    },
    "cocoa-fig2": {
        "Of its 100 packets CUBIC on this path needs some 10: even right after a loss many packets stand in "
        "the queue, and "
        "serve nothing.": lambda: 5 <= notes("cocoa-fig2", "buffer")[-1] <= 35,
        "At the end of each guard interval cocoa takes the least of them off the buffer (red marks of the "
        'figure "Buffer '
        'per flow"), until none stands.': lambda: (
            notes("cocoa-fig2", "reduce")[0] > 50 and sum(notes("cocoa-fig2", "reduce", 10)) == 0
        ),
    },
    "cocoa-fig3": {
        "At 10 s the rate falls, the path holds fewer packets, and the intervals become shorter.": lambda: (
            statistics.median(notes("cocoa-fig3", "longest_interval", 12, 20))
            < statistics.median(notes("cocoa-fig3", "longest_interval", 2, 10))
        ),
    },
}

#: Words of sentences that say what happens.
OUTCOME = re.compile(
    r"\b(Expect|gets?|share|waits?|loses?|lost|fair|favou?rs?|stays?|grows?|shrinks?|idles?|empty|used|never|becomes?|more|"
    r"less|longer|percentile|mean|needs?|fills?)\b"
)

#: Sentences with such words that say only what the file sets up, or how a mechanism works.
SETUP = {
    "bbr-10g": {"BBR on a path of 10 Gbit/s and 100 ms that loses 1 % of the packets at random."},
    "dctcp-latecomers": {
        "Twenty DCTCP flows hold a queue that marks above its threshold of some 20 packets; ten more come after a "
        "second.",
    },
    "bursts-after-idle": {
        "In between the sender is idle for six seconds, after which it begins with ten packets again (RFC 5681, 4.1).",
    },
    "starlink": {
        "Measured were about 20 Mbit/s with CUBIC and more than 120 with BBR (blog.wirelessmoves.com, August 2023), "
        "and losses of 1 to 2 % that have nothing to do with congestion (Huston, APNIC blog, 17 May 2024).",
    },
    "bursty-loss": {
        "Two CUBIC flows with the same loss rate of 0.1 %, on links of their own: in one link each packet is lost by "
        "itself, in the other losses come in bursts of five (Gilbert-Elliott).",
    },
    "cellular-lte": {
        "One CUBIC flow on a downlink whose capacity wanders between 1 and 16 Mbit/s by the second, with two "
        "outages of "
        "more than a second, as that of a phone in a car does.",
    },
    "delay-distributions": {
        "LoLa on four links that differ only in the extra delay behind them: none, uniform up to 10 ms, and normal and "
        "Pareto with the uniform one's mean of 5 ms and standard deviation of 2.9 ms.",
    },
    "leo": {
        "At 12, 27, 42 and 57 s the terminal is given another satellite: 100 ms without service, another propagation "
        "delay, another share of 200 Mbit/s.",
    },
    "lte": {
        "A tenth of the transport blocks fail and go again after 8 ms, and all behind them waits; ACKs go "
        "upstream with "
        "scheduling requests.",
    },
    "nr": {
        "A tenth of the transport blocks fail and go again after 4 ms, and all behind them waits; ACKs go "
        "upstream with "
        "scheduling requests.",
    },
    "wifi": {
        "Frames go in aggregates of up to 4 ms, one in 50 fails and goes again, and ACKs share the air with the data.",
    },
    "daimd-start": {
        "Above max_ssthresh, the number of packets that take tau0 at the bottleneck (Eq. 7), the window grows by at "
        "most half of max_ssthresh per round trip.",
    },
    "daimd-reverse": {
        "Two flows forth, and from 60 to 180 s a CUBIC flow back, which fills the buffer that their ACKs wait in.",
    },
    "daimd-table1": {
        "The buffer is small and the backoff is always by half, as the table's durations presume; smooth "
        "sending fills no "
        "buffer by bursts.",
    },
    "rrul": {
        "Real-time response under load, as Flent's RRUL: four downloads and four uploads start after five "
        "idle seconds, "
        "while probes measure the latency. --set link.queue=cake --set link.reverse.queue=cake changes the "
        "queues of both "
        "directions.",
    },
    "hello": {"The first thing to run: two CUBIC flows share a link of 100 Mbit/s for ten seconds."},
    "video-beside-video": {
        "Two players share a link that carries less than twice their highest bitrate: one chooses by its "
        "buffer, one by "
        "its rate.",
    },
}

#: The findings of searches are run, with their causes, by the page "search" of knee reproduce.
SHIPPED = [path for path in sorted(SCENARIOS.rglob("*.toml")) if path.parent.name != "searches"]


def sentences(path: Path) -> list[str]:
    """Sentences of the comments of a scenario that stand on lines of their own."""
    paragraphs, lines = [], []
    for line in [*path.read_text(encoding="utf-8").splitlines(), ""]:
        if line.startswith("#") and line.strip("# "):
            lines.append(line.lstrip("# "))
        elif lines:
            paragraphs.append(" ".join(lines))
            lines = []
    return [each for text in paragraphs for each in re.split(r"(?<=[a-z0-9)%][.:])\s+(?=[A-Z])", text)]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_sentence_that_says_what_happens_is_known(path: Path) -> None:
    found = set(sentences(path))
    known = set(CLAIMS.get(path.stem, {})) | SETUP.get(path.stem, set())
    assert known <= found, f"no longer in {path.name}: {known - found}"
    unknown = {each for each in found - known if OUTCOME.search(each) and not OF_A_PAPER.match(each)}
    assert not unknown, f"{path.name} says what happens, and nothing checks it"


@pytest.mark.parametrize(("name", "claim"), [(name, claim) for name, claims in CLAIMS.items() for claim in claims])
def test_what_a_scenario_says_happens(name: str, claim: str) -> None:
    assert CLAIMS[name][claim](), f"{name}: {claim}"
