"""Says where flows share a queue of a fair queue with others, since their hashes are the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from knee.figures.metrics import direction

if TYPE_CHECKING:
    import polars as pl

#: The event of a flow that comes to a queue which another one uses.
EVENT = "collision"


def at_links(events: pl.DataFrame) -> Iterator[tuple[str, int, float]]:
    """The link, the flow and the one whose queue it shares, of each such event."""
    import polars as pl

    mine = events.filter((pl.col("event") == EVENT) & pl.col("link").is_not_null())
    return mine.select("link", "flow", "value").iter_rows()


def warnings(summary: Mapping[str, Any], collisions: Iterable[tuple[str, int, float]]) -> list[str]:
    """A sentence for each link at which bulk flows share queues, each of which gives its flows one share together.

    Args:
        summary: the figures of a run.
        collisions: its events :data:`EVENT` at links: the link, the flow, and the one whose queue it shares.
    """
    back = {flow["flow"]: direction(flow) == "reverse" for flow in summary["flows"] if flow.get("traffic") is None}
    shared: dict[str, set[int]] = {}
    for link, flow, other in collisions:
        # ACKs share queues too, and hardly fill them; connections of one application are one flow of the scenario.
        if back.get(flow) == link.endswith(" (reverse)") and other != flow:
            shared.setdefault(link, set()).add(flow)
    return [
        f"At {link} {len(flows)} of {len(back)} bulk flows {'has' if len(flows) == 1 else 'have'} the hash of another "
        f"flow and {'shares' if len(flows) == 1 else 'share'} its queue, which lowers Jain's index. More queues make "
        "this rarer."
        for link, flows in shared.items()
    ]
