"""Says where flows share a queue of a fair queue with others, since their hashes are the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from knee.figures.metrics import direction

if TYPE_CHECKING:
    from collections.abc import Mapping


def warnings(summary: Mapping[str, Any], events: pl.DataFrame) -> list[str]:
    """A sentence for each link at which bulk flows share queues, each of which gives its flows one share together.

    Args:
        summary: the figures of a run.
        events: its events; ``collision`` at a link has the flow, and as value the one whose queue it shares.
    """
    at = [
        {"flow": flow["flow"], "back": direction(flow) == "reverse"}
        for flow in summary["flows"]
        if flow.get("traffic") is None
    ]
    bulk = pl.DataFrame(at, schema={"flow": pl.UInt32, "back": pl.Boolean})
    found = events.filter((pl.col("event").cast(pl.String) == "collision") & pl.col("link").is_not_null())
    if found.is_empty():
        return []
    data = found.select(pl.col("flow").cast(pl.UInt32), pl.col("link").cast(pl.String), "value").join(bulk, on="flow")
    # ACKs share queues too, and hardly fill them; connections of one application are one flow of the scenario.
    shared = data.filter(
        (pl.col("link").str.ends_with(" (reverse)") == pl.col("back")) & (pl.col("value") != pl.col("flow"))
    )
    counts = shared.group_by("link", maintain_order=True).agg(pl.col("flow").n_unique().alias("flows"))
    return [
        f"At {link} {flows} of {len(at)} bulk flows {'has' if flows == 1 else 'have'} the hash of another flow and "
        f"{'shares' if flows == 1 else 'share'} its queue, which lowers Jain's index. More queues make this rarer."
        for link, flows in counts.iter_rows()
    ]
