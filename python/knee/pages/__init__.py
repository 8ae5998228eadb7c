"""What every HTML page shares: one skeleton, one content policy, one set of colours, tables and charts.

A page is a Jinja template that extends ``pages/base.html``, rendered by :func:`page`. Text is escaped unless a template
says otherwise, and control characters are shown, not sent. A page loads nothing: scripts stand in it, and the browser
runs only those whose digest the policy names, so that no markup in a label can run anything.
"""

from __future__ import annotations

import hashlib
import importlib.util
from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from knee.report import palette
from knee.text import visible

if TYPE_CHECKING:
    from jinja2 import Environment

#: Styles may stand in the page since plotly sets them on what it draws.
_POLICY = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src {scripts}; "
    "base-uri 'none'; form-action 'none'"
)
#: What draws the charts of a page, in order.
CHARTS = ("plotly", "pages/charts.js")


def rounded(value: float | None, digits: int = 6) -> float | None:
    """`value` with as many significant digits as a screen needs."""
    return None if value is None else float(f"{value:.{digits}g}")


def page(template: str, *, scripts: Sequence[str] = (), styles: Sequence[str] = (), **values: Any) -> str:
    """A whole page.

    Args:
        template: extends ``pages/base.html``; a path below the package, as are `scripts` and `styles`.
        scripts: in their order; "plotly" is that library.
        styles: added to the shared ones.
        values: what the template shows.
    """
    from markupsafe import Markup

    sources = [_script(name) for name in scripts]
    digests = " ".join(f"'sha256-{_digest(name)}'" for name in scripts)
    return render(
        template,
        policy=_POLICY.format(scripts=digests or "'none'"),
        styles=[Markup(_asset(name)) for name in ("pages/page.css", *styles)],
        scripts=[Markup(source) for source in sources],
        palette=palette,
        **values,
    )


def render(template: str, **values: Any) -> str:
    """A template with its values, as text of HTML."""
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
    made.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False, "default": _plain}
    return made


def _plain(value: Any) -> object:
    """Arrays as plotly reads them: their type, and their bytes in base 64."""
    return {"dtype": f"{value.dtype.kind}{value.dtype.itemsize}", "bdata": b64encode(value.tobytes()).decode()}


@cache
def _asset(name: str) -> str:
    return resources.files("knee").joinpath(name).read_text(encoding="utf-8")


@cache
def _script(name: str) -> str:
    if name != "plotly":
        return _asset(name)
    # Importing plotly takes longer than reading the one file of it that a page needs.
    found = importlib.util.find_spec("plotly")
    assert found is not None
    assert found.origin is not None
    library = Path(found.origin).parent / "package_data" / "plotly.min.js"
    return library.read_text(encoding="utf-8").replace("</script", r"<\/script")


@cache
def _digest(name: str) -> str:
    # The newlines that base.html puts around a script are part of it.
    return b64encode(hashlib.sha256(f"\n{_script(name)}\n".encode()).digest()).decode()
