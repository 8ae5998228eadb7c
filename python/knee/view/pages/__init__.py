"""HTML pages: one skeleton, content policy, and set of colours, tables and charts for all of them.

A page is a Jinja template that extends ``view/pages/base.html``, rendered by :func:`page`. Text is escaped unless a
template says otherwise, and control characters are made visible. A page loads nothing. Its scripts are inline, and the
browser runs only those whose digest the policy lists, so markup in a label cannot run code.

:func:`prepared` makes a chart ready for a template: its texts, and what `charts.js` draws as JSON. The numbers of a
chart are one block: 32-bit floats whose bytes of equal weight lie together, compressed. A series names its arrays by
their place in the block; evenly spaced places are only their start, step and count.
"""

from __future__ import annotations

import hashlib
import zlib
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from knee.figures.metrics import Floats
from knee.system.text import visible
from knee.view import palette
from knee.view.chart import Band, Bars, Boxes, Chart, Heat, Line, Marks, Panel, Rules, Spans, XAxis

if TYPE_CHECKING:
    from jinja2 import Environment

#: Inline styles are allowed because uPlot sets them on its elements; pictures are drawn from data.
_POLICY = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src {scripts}; "
    "base-uri 'none'; form-action 'none'"
)
#: The scripts that draw a page's charts, in order.
CHARTS = tuple(
    f"view/pages/{name}"
    for name in ("uplot/uPlot.iife.min.js", "svg.js", "draw.js", "scaling.js", "touch.js", "charts.js")
)
_CHART_STYLE = "view/pages/uplot/uPlot.min.css"


def rounded(value: float | None, digits: int = 6) -> float | None:
    """`value` rounded to the significant digits that a screen can show."""
    return None if value is None else float(f"{value:.{digits}g}")


def page(template: str, *, scripts: Sequence[str] = (), styles: Sequence[str] = (), **values: Any) -> str:
    """A whole page.

    Args:
        template: path of a template that extends ``view/pages/base.html``, relative to the package.
        scripts: paths of scripts, in order.
        styles: paths of additional style sheets.
        values: the template's variables.
    """
    from markupsafe import Markup

    library = [_CHART_STYLE] if CHARTS[0] in scripts else []
    sources = [_asset(name) for name in scripts]
    # The digest includes the newlines that base.html puts around a script.
    hashes = [hashlib.sha256(f"\n{source}\n".encode()).digest() for source in sources]
    digests = " ".join(f"'sha256-{b64encode(digest).decode()}'" for digest in hashes)
    return render(
        template,
        policy=_POLICY.format(scripts=digests or "'none'"),
        styles=[Markup(_asset(name)) for name in (*library, "view/pages/page.css", *styles)],
        scripts=[Markup(source) for source in sources],
        palette=palette,
        **values,
    )


def render(template: str, **values: Any) -> str:
    """Renders a template to HTML."""
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    def shown(value: object) -> object:
        return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value

    made = Environment(
        loader=FileSystemLoader(str(resources.files("knee"))),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return made


@cache
def _asset(name: str) -> str:
    return resources.files("knee").joinpath(name).read_text(encoding="utf-8")


Series = Line | Band | Marks | Spans | Rules | Bars | Boxes | Heat
#: Bits of a value's mantissa that are left out: five digits are kept, more than a screen shows.
ROUNDED_BITS = 7


@dataclass(frozen=True)
class PageFigure:
    """A chart for the macro `figure`.

    Attributes:
        size: CSS class of its height.
        note: text shown instead if there is nothing to draw.
        spec: what `charts.js` draws.
    """

    key: str
    title: str
    caption: str
    size: str
    note: str
    spec: dict[str, Any]


def prepared(chart: Chart) -> PageFigure:
    """Prepares a chart for a template."""
    rows = -(-len(chart.panels) // chart.columns)
    size = {1: "flat", 2: "tall"}.get(rows, "tallest")
    if chart.empty:
        return PageFigure(chart.key, chart.title, "", size, chart.panels[0].note or "", {})
    caption = " ".join([*chart.caption, chart.note]).strip()
    return PageFigure(chart.key, chart.title, caption, size, "", spec(chart))


class _Block:
    """The arrays of a chart; equal ones are kept once."""

    def __init__(self) -> None:
        self._places: dict[bytes, int] = {}
        self._lengths: list[int] = []

    def place(self, values: Floats, *, across: bool) -> int | dict[str, float]:
        """The number of an array, or the description of an evenly spaced one; `across` keeps all digits."""
        if across and len(values) > 2:
            step = (values[-1] - values[0]) / (len(values) - 1)
            even = values[0] + step * np.arange(len(values))
            if step > 0 and np.abs(even - values).max() < 1e-4 * step:
                return {"start": float(values[0]), "step": float(step), "count": len(values)}
        single = np.ascontiguousarray(values, dtype="<f4")
        data = (single if across else _rounded(single)).tobytes()
        if data not in self._places:
            self._lengths.append(len(values))
        return self._places.setdefault(data, len(self._places))

    def packed(self) -> dict[str, Any]:
        whole = np.frombuffer(b"".join(self._places), dtype=np.uint8)
        planes = whole.reshape(-1, 4).T.tobytes()
        block = b64encode(zlib.compress(planes, 9)).decode() if self._places else ""
        return {"block": block, "lengths": self._lengths}


def _rounded(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Values without the last bits of their mantissas, rounded; gaps stay gaps."""
    half, mask = np.uint32(1 << (ROUNDED_BITS - 1)), np.uint32(0xFFFFFFFF << ROUNDED_BITS & 0xFFFFFFFF)
    bits = ((values.view(np.uint32) + half) & mask).view(np.float32)
    return np.where(np.isfinite(values), bits, np.float32(np.nan)).astype("<f4")


def spec(chart: Chart) -> dict[str, Any]:
    """The chart as `charts.show` takes it; text is as it is shown."""
    block = _Block()
    panels = [_panel(panel, block) for panel in chart.panels]
    return {
        "key": chart.key,
        "title": visible(chart.title),
        "x": _axis(chart.x),
        "columns": chart.columns,
        "panels": panels,
        "data": block.packed(),
    }


def _axis(axis: XAxis) -> dict[str, Any]:
    return {
        "title": visible(axis.title), "low": axis.low, "high": axis.high, "log": axis.log, "time": axis.time,
        "unit": axis.unit, "names": [visible(name) for name in axis.names] or None, "ticks": list(axis.ticks) or None,
    }  # fmt: skip


def _panel(panel: Panel, block: _Block) -> dict[str, Any]:
    series: list[Series] = [
        *panel.spans, *panel.heats, *panel.bands, *panel.bars, *panel.boxes, *panel.lines, *panel.marks, *panel.rules,
    ]  # fmt: skip
    return {
        "label": visible(panel.label), "title": visible(panel.title), "unit": panel.unit, "floor": panel.floor,
        "ceiling": panel.ceiling, "headroom": panel.headroom, "note": panel.note, "log": panel.log,
        "rows": [visible(row) for row in panel.rows] or None, "x": _axis(panel.x) if panel.x else None,
        "items": [_item(one, block) for one in series],
    }  # fmt: skip


def _item(item: Series, block: _Block) -> dict[str, Any]:
    """A series: its kind, and its fields that are not empty."""
    made: dict[str, Any] = {"kind": _KINDS[type(item)]}
    for each in fields(item):
        value = getattr(item, each.name)
        if isinstance(value, np.ndarray):
            made[each.name] = value.tolist() if isinstance(item, Rules) else block.place(value, across=each.name == "x")
        elif isinstance(item, Heat) and each.name == "z":
            made["z"] = [[float(f"{v:.6g}") if np.isfinite(v) else None for v in row] for row in value]
        elif each.name == "texts":
            made["texts"] = [visible(text) for text in value]
        elif each.name == "name":
            made["name"] = visible(value)
        elif each.name == "colour":
            made["colour"] = palette.NAMES.get(value, value)
        elif value is not None and value is not False and value != () and value != []:
            made[each.name] = value
    return made


_KINDS = {
    Line: "line", Band: "band", Marks: "marks", Spans: "spans", Rules: "rules", Bars: "bars",
    Boxes: "boxes", Heat: "heat",
}  # fmt: skip
