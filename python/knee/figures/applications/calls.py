"""The quality of a call: the E-model (ITU-T G.107), simplified for packets by Cole and Rosenbluth.

R. G. Cole and J. H. Rosenbluth, "Voice over IP performance monitoring", ACM SIGCOMM Computer Communication Review
31(2), 2001::

    R = 94.2 - Id(d) - Ie(e)
    Id(d) = 0.024 d + 0.11 (d - 177.3) H(d - 177.3)        d: mouth to ear, ms
    Ie(e) = 0 + 30 ln(1 + 15 e)                            G.711 with concealment, random loss e
    MOS = 1 + 0.035 R + 7e-6 R (R - 60) (100 - R)          0 < R < 100 (G.107, Annex B)

The delay from mouth to ear is the time to fill a packet, the path, and the playout buffer; packets that come later than
it plays them are lost. The buffer is fixed, with the delay that gives the highest R. The paper has no figures for Opus:
here its losses count as G.711's.
"""

from __future__ import annotations

import math

import numpy as np

from knee.figures.applications.histogram import Histogram
from knee.figures.forms import Figures

#: Both codecs put 20 ms of voice into a packet.
PACKET_MS = 20.0


def delay_impairment(d_ms: float) -> float:
    """Id of a delay from mouth to ear."""
    return 0.024 * d_ms + 0.11 * max(0.0, d_ms - 177.3)


def loss_impairment(e: float) -> float:
    """Ie of random loss, 0 to 1, for G.711 with concealment."""
    return 30.0 * math.log(1.0 + 15.0 * e)


def r_factor(d_ms: float, e: float) -> float:
    """R of a delay from mouth to ear and a loss."""
    return 94.2 - delay_impairment(d_ms) - loss_impairment(e)


def mos(r: float) -> float:
    """The mean opinion score, 1 to 4.5, of an R."""
    if r <= 0:
        return 1.0
    # The cubic falls below 1 for the least R.
    return max(1.0, 4.5 if r >= 100 else 1 + 0.035 * r + 7e-6 * r * (r - 60) * (100 - r))


def quality(delays: Histogram, sent: int) -> Figures:
    """MOS and R of a call, and the delay from mouth to ear that gives them.

    Args:
        delays: one-way delays of the packets that arrived, ms.
        sent: packets sent, less those that were still under way.
    """
    arrived = np.cumsum(delays.counts)
    if not sent or not len(arrived):
        return {"mos": 1.0 if sent else None, "r_factor": None, "mouth_to_ear_ms": None}
    each = [
        (r_factor(PACKET_MS + float(value), max(0.0, 1 - float(count) / sent)), float(value))
        for value, count in zip(delays.values, arrived, strict=True)
    ]
    best, playout = max(each)
    r = min(max(best, 0.0), 100.0)
    return {"mos": mos(best), "r_factor": r, "mouth_to_ear_ms": PACKET_MS + playout}
