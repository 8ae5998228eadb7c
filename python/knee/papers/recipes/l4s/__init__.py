"""L4S: Prague, DCTCP and CUBIC under DualPI2, beside what its authors and others measured; and what it does at home."""

from __future__ import annotations

from knee.papers.paper import Paper
from knee.papers.recipes.l4s import classic, coupling, delay_based, household, measured, settings

PAPER = Paper(
    key="l4s",
    title="L4S: Prague and classic flows share a link",
    source="RFC 9332; De Schepper et al., arXiv 2209.01078; measurements of Heist and Morton (2020) and of the L4S "
    "team (2020)",
    address="https://www.rfc-editor.org/rfc/rfc9332",
    about="DualPI2 gives L4S traffic a queue of its own with almost no delay and couples its marks to the drops or "
    "marks of the classic queue, so that flows of both kinds get about the same rate. The authors' claims are taken "
    "from abstracts; the figures of their papers could not be looked up. The numbers beside them are tables and raw "
    "data that Heist and Morton (github.com/heistp/l4s-tests) and the L4S team (l4steam.github.io, iccrg-exp) "
    "published of runs on Linux kernels of 2020. Unless an experiment says otherwise, a packet is marked by the "
    "step of 1 ms if it found two others in the L queue (min_qlen_step = 2), as in the kernel of those measurements.",
    experiments=[
        coupling.COUPLING,
        measured.PAIRS,
        measured.ALONE,
        measured.VIRTUAL_RTT,
        classic.CLASSIC,
        settings.STEP,
        household.HOUSEHOLD,
        delay_based.ONE_QUEUE,
        delay_based.CLASSIC_QUEUE,
    ],
)
