"""What the report needs of a result; anything with these attributes can be drawn."""

from collections.abc import Mapping
from typing import Any, Protocol

import polars as pl


class ResultLike(Protocol):
    """A finished run, as its result folder keeps it: columns and keys are those of the result format."""

    @property
    def summary(self) -> Mapping[str, Any]:
        """`summary.json`."""
        ...

    @property
    def manifest(self) -> Mapping[str, Any]:
        """`manifest.json`."""
        ...

    @property
    def samples(self) -> pl.DataFrame:
        """A row per flow and interval, flows counted from 1."""
        ...

    @property
    def links(self) -> pl.DataFrame:
        """A row per link and interval."""
        ...

    @property
    def events(self) -> pl.DataFrame:
        """What happened, with the flow or the link it happened to."""
        ...


def scenario_text(result: ResultLike) -> str | None:
    """The resolved scenario as TOML, from the result or its scenario; None where neither carries the text."""
    for holder in (result, getattr(result, "scenario", None)):
        text = getattr(holder, "scenario_toml", None)
        if isinstance(text, str):
            return text
    return None
