"""BBRv3: the example test cases and goals of its draft (draft-ietf-ccwg-bbr-06)."""

from __future__ import annotations

from knee.papers.paper import Paper
from knee.papers.recipes.bbr3.cases import CASES
from knee.papers.recipes.bbr3.goals import LOSS, SMALL, STEADY, STEPS

PAPER = Paper(
    key="bbr3",
    title="BBRv3",
    source="Cardwell, Swett, Beshay: BBR Congestion Control, draft-ietf-ccwg-bbr-06, IETF CCWG, 2026",
    address="https://datatracker.ietf.org/doc/draft-ietf-ccwg-bbr/06/",
    about="The draft has no figures. These are those of its 22 example test cases (Appendix A) that a network can "
    "show, and two goals. Four cases are about phases of a flow that its application limits, of which the simulator "
    "records no phases: tests beside the code hold these. lab/bbr3.md lists all, and compares the "
    "draft's functions with ours.",
    experiments=[STEADY, STEPS, SMALL, LOSS, *CASES],
)
