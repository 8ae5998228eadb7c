"""HTML pages: one skeleton, content policy, and set of colours, tables and charts for all of them.

A page is a Jinja template that extends ``view/pages/base.html``, rendered by :func:`page`. Text is escaped unless a
template says otherwise, and control characters are made visible. A page loads nothing. Its scripts are inline, and the
browser runs only those whose digest the policy lists, so markup in a label cannot run code.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from knee.system.text import visible
from knee.view import palette

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
