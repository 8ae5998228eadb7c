"""Each algorithm over QUIC has TCP's goodput and delay on random networks, lossless and with up to 10 % of loss."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))

import quic_tcp

Bounds = tuple[tuple[float, float], tuple[float, float]]

#: By loss: the least and the greatest goodput and mean RTT over QUIC as parts of TCP's, on one network.
#:
#: Without loss, QUIC's headers leave 0.7 % less of a packet, and the run ends elsewhere in a sawtooth's cycle. With
#: loss, the random numbers of the two runs weigh most: each loses some hundred packets, and three standard deviations
#: of the ratio of two rates of a hundred losses are 3 · 0.5 · sqrt(2 / 100) = 21 %. At 10 %, TCP also has timeouts
#: after lost retransmissions, while a probe timeout of QUIC's leaves the window as it is.
ONE: dict[float, Bounds] = {
    0.0: ((0.94, 1.06), (0.79, 1.21)),
    0.01: ((0.79, 1.21), (0.79, 1.21)),
    0.05: ((0.79, 1.21), (0.79, 1.21)),
    0.1: ((0.79, 1.35), (0.79, 1.21)),
}
#: The same for the geometric means over some nine networks with loss, a third of it, and the share of headers.
MEAN: dict[float, Bounds] = {
    0.0: ((0.97, 1.02), (0.93, 1.07)),
    0.01: ((0.92, 1.07), (0.93, 1.07)),
    0.05: ((0.92, 1.10), (0.90, 1.10)),
    0.1: ((0.92, 1.15), (0.90, 1.10)),
}
GOODPUT, RTT = {"goodput"}, {"rtt"}
Exceptions = dict[str, tuple[set[float], set[str], str]]
#: What does not hold them on one network: with which loss, in which figures, and why as far as it is known.
EXCEPTIONS: Exceptions = {
    "lola": ({0.0, 0.05, 0.1}, GOODPUT, "over TCP it takes the wait of an ACK for a queue; QUIC tells the wait"),
    "lola-wild": (
        {0.0, 0.1},
        GOODPUT | RTT,
        "a packet longer than q_low makes it compete by chance: 0.72, 1.91",
    ),
    "copa": ({0.0}, GOODPUT, "it leaves up to 38 % of the link free over TCP; not known"),
    "cdg": ({0.0}, GOODPUT, "backs off by chance: 0.86 to 1.22, 1.00 in the mean"),
    "c4": ({0.0}, GOODPUT | RTT, "Initial's queue may stay over either: 0.42 to 1.76 of the RTT, 0.93 of the goodput"),
    "vivace": ({0.05, 0.1}, GOODPUT, "random losses decide its probes of a few packets: 0.25 to 2.18"),
    "bbr3": ({0.1}, GOODPUT, "its rate falls from what startup found, sooner over QUIC: 0.29 to 1.57"),
    "illinois": ({0.01, 0.05, 0.1}, GOODPUT, "compares delays with the greatest, from which QUIC takes an ACK's wait"),
}
#: The same for the means.
MEAN_EXCEPTIONS: Exceptions = {
    "bbr3": ({0.1}, GOODPUT, "0.85 with a standard error of 0.03; 0.91 with an ACK for each packet on both; see above"),
    "copa": ({0.0}, GOODPUT, "1.03; not known"),
    "illinois": ({0.01, 0.05, 0.1}, GOODPUT, "0.79, 0.81 and 0.74; explained in part, as above"),
    "ledbat++": ({0.05}, RTT, "1.10: the RTT of QUIC has the wait of an ACK in it"),
    "lola": ({0.01}, GOODPUT, "0.90 with a standard error of 0.07"),
    "lola-wild": (
        {0.05, 0.1},
        GOODPUT | RTT,
        "0.90 with a standard error of 0.01 (0.94 before its slow start bore bursts, which gains TCP 5 % and QUIC "
        "nothing: QUIC seldom starts again after a timeout); 1.10",
    ),
    "nv": ({0.1}, GOODPUT, "1.23; not known"),
    "timely": ({0.0}, GOODPUT, "0.97: 0.78 at 1.35 Mbit/s, where handshakes differ most; 0.97 and more elsewhere"),
    "westwood": ({0.01, 0.05}, GOODPUT, "0.87: the window falls at once over QUIC, and a recovery takes longer"),
}


def _check(cc: str, loss: float, seen: dict[str, float], bounds: dict[float, Bounds], exceptions: Exceptions) -> None:
    losses, figures, _ = exceptions.get(cc, (set(), set(), ""))
    for (figure, value), (least, most) in zip(seen.items(), bounds[loss], strict=True):
        if loss not in losses or figure not in figures:
            assert least < value < most, (cc, loss, seen)


@pytest.mark.parametrize("cc", quic_tcp.able())
def test_an_algorithm_has_over_quic_its_goodput_and_delay_over_tcp(cc: str) -> None:
    for network in quic_tcp.networks(6):
        seen = quic_tcp.ratio(cc, network)
        _check(cc, network.loss, {"goodput": seen.goodput, "rtt": seen.rtt}, ONE, EXCEPTIONS)


@pytest.mark.parametrize("cc", quic_tcp.able())
def test_so_it_has_in_the_mean_over_many_networks(cc: str) -> None:
    """A thousand networks for all algorithms; each with loss has several seeds, since one leaves much to chance."""
    networks = list(quic_tcp.networks(quic_tcp.NETWORKS))
    for loss in MEAN:
        seen = [each for network in networks if network.loss == loss for each in quic_tcp.ratios(cc, network)]
        means = {figure: quic_tcp.mean([getattr(each, figure) for each in seen]) for figure in ("goodput", "rtt")}
        _check(cc, loss, means, MEAN, MEAN_EXCEPTIONS)
