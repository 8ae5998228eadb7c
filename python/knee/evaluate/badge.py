"""A badge: how many criteria pass, as a small SVG for a README or a pull request."""

from __future__ import annotations

from markupsafe import escape

from knee.evaluate.outcome import Evaluation
from knee.evaluate.verdict import CriterionVerdict, worst
from knee.system.text import visible

#: The colours of the right half, dark enough for white text.
_COLOURS = {
    CriterionVerdict.PASSES: "#14713F",
    CriterionVerdict.NOT_APPLICABLE: "#5B6672",
    CriterionVerdict.LOOK: "#9A5B00",
    CriterionVerdict.WORSE: "#B3330F",
    CriterionVerdict.DOES_NOT_RUN: "#B3330F",
}
#: Width of a character of 11 px, roughly.
_WIDTH = 6.6


def text(done: Evaluation) -> str:
    """The badge's text: how many criteria pass, of how many, and how many fail."""
    applicable = len(done.criteria) - done.count(CriterionVerdict.NOT_APPLICABLE)
    worse = done.count(CriterionVerdict.WORSE) + done.count(CriterionVerdict.DOES_NOT_RUN)
    return f"{done.count(CriterionVerdict.PASSES)} of {applicable} pass" + (f", {worse} fail" if worse else "")


def svg(done: Evaluation) -> str:
    """The badge."""
    where = "" if done.ground == "sim" else f" on Linux {done.kernel}"
    left, right = f"{done.document}{visible(where)}: {visible(done.name)}", text(done)
    split, whole = round(_WIDTH * len(left) + 14), round(_WIDTH * (len(left) + len(right)) + 28)
    colour = _COLOURS[worst([found.verdict for found in done.criteria])]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{whole}" height="20" role="img" '
        f'aria-label="{escape(left)}, {escape(right)}"><title>{escape(left)}, {escape(right)}</title>'
        f'<rect width="{whole}" height="20" rx="3" fill="#39424C"/>'
        f'<path d="M{split} 0H{whole - 3}a3 3 0 0 1 3 3V17a3 3 0 0 1-3 3H{split}z" fill="{colour}"/>'
        '<g fill="#FFFFFF" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">'
        f'<text x="{split / 2:g}" y="14">{escape(left)}</text>'
        f'<text x="{(split + whole) / 2:g}" y="14">{escape(right)}</text></g></svg>\n'
    )
