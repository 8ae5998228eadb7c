"""The figure that `plot` gives, which shows itself in a notebook and is written as PDF, SVG, PNG or HTML."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from pathlib import Path

from knee.errors import InputError
from knee.view.chart import Chart

#: Height in px of a row of panels in a notebook, and of what stands around them.
_ROW_PX, _AROUND_PX = 230, 150


def snippet(name: str, headline: str, draw: Callable[[], Figure]) -> str:
    """A study as a few lines of HTML for a notebook: what it is, and its figure, if it has one, as a picture."""
    from base64 import b64encode

    from knee.view import drawing, pages

    try:
        chart = draw().chart
    except InputError:
        # There is nothing to draw over, as over seeds alone.
        return pages.render("view/pages/study.html", name=name, headline=headline, picture="", title="")
    picture = b64encode(drawing.image(chart)).decode()
    return pages.render("view/pages/study.html", name=name, headline=headline, picture=picture, title=chart.title)


@dataclass(frozen=True)
class Figure:
    """A figure.

    Attributes:
        chart: what it shows, as data: panels, and their series as arrays.
    """

    chart: Chart

    def save(
        self, path: str | Path, *, width: str | float = "page", font_size: float = 9.0, font: str | None = None
    ) -> Path:
        """Writes the figure and gives its path; the path's end says in which format: .pdf, .svg, .png or .html.

        Args:
            path: the file.
            width: "column" (3.5 in), "page" (7 in), or inches; not of .html.
            font_size: of titles, points, 4 to 24; not of .html.
            font: its name, of those that this machine has, such as "DejaVu Serif"; not of .html.

        Raises:
            InputError: the format, the width, the font or its size is not known or out of range, or the figure is too
                small for its texts.
            RunError: it cannot be written.
        """
        from knee.system import files
        from knee.view import drawing

        path = Path(path)
        if path.suffix == ".html":
            files.write(path, self.html())
        else:
            try:
                kind = drawing.check_format(path)
            except InputError as error:
                raise InputError(f"{str(error).removesuffix('.')}, .html.") from None
            files.write(path, drawing.image(self.chart, kind, drawing.size(width, font_size, font)))
        return path

    def show(self) -> None:
        """Opens the figure in a browser; in a notebook, a figure shows itself."""
        import tempfile
        import webbrowser

        folder = Path(tempfile.mkdtemp(prefix="knee-figure-"))
        webbrowser.open(self.save(folder / f"{self.chart.key}.html").as_uri())

    def html(self) -> str:
        """The figure as an HTML page that loads nothing."""
        from knee.view import pages

        return pages.page(
            "view/pages/figure.html",
            scripts=pages.CHARTS,
            title=self.chart.title,
            figure=pages.prepared(self.chart),
        )

    def _repr_html_(self) -> str:
        """The figure in a frame of its own, so that neither its styles nor its scripts meet the notebook's."""
        rows = -(-len(self.chart.panels) // self.chart.columns)
        height = _ROW_PX * rows + _AROUND_PX
        return f'<iframe srcdoc="{escape(self.html())}" style="width:100%;height:{height}px;border:0"></iframe>'

    def _repr_png_(self) -> bytes:
        """The figure as a picture, where HTML is not shown."""
        from knee.view import drawing

        return drawing.image(self.chart)

    def __repr__(self) -> str:
        """Its title and how many panels and series it has."""
        panels = self.chart.panels
        series = sum(len(p.lines) + len(p.marks) + len(p.bars) + len(p.boxes) + len(p.heats) for p in panels)
        return f"<knee figure {self.chart.title!r}: {len(panels)} panels, {series} series>"
