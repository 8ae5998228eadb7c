"""Whether several runs of a scenario give the same figures: with several seeds, or with one."""

from __future__ import annotations

from collections.abc import Sequence

from knee.figures.forms import Summary

#: Why seeds may give the same figures.
SAME_SEEDS = "only loss, jitter and randomised algorithms depend on the seed"


def same_figures(summaries: Sequence[Summary]) -> str | None:
    """A remark on runs of one scenario with several seeds, where all gave the same figures; None where they did not."""
    figures = [[summary[part] for part in ("flows", "links", "run")] for summary in summaries]
    if len(figures) < 2 or any(each != figures[0] for each in figures):
        return None
    return f"All seeds gave the same figures: {SAME_SEEDS}."


def unrepeated(one: Summary, other: Summary) -> str | None:
    """A sentence on two runs of one scenario and seed with classes of users; None where they gave the same figures."""
    for part, key in (("flows", "flow"), ("links", "link")):
        for a, b in zip(one[part], other[part], strict=True):  # type: ignore[literal-required]
            # Names may stand for another copy of the same class.
            figures = [name for name, value in a.items() if not isinstance(value, str)]
            name = next((name for name in figures if a[name] != b.get(name)), None)
            if name is not None:
                return (
                    f"Two runs of {one['name']} with the seed {one['seed']} differ: {name} of {key} {a[key]} is "
                    f"{_text(a[name])} and {_text(b.get(name))}. A class draws random numbers of its own or reads a "
                    "clock; self.random draws numbers that the seed decides."
                )
    return None


def _text(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value) if isinstance(value, int) else "another"
