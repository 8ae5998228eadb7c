"""Packages that only some commands use, which the extras of pyproject.toml install."""

from __future__ import annotations

from importlib.util import find_spec

from knee.errors import RunError
from knee.system.missing import Missing

#: The extra that has a package.
EXTRAS = {
    "distributed": "dask",
    "gymnasium": "gym",
    "matplotlib": "plot",
    "optuna": "search",
    "pyroute2": "linux",
    "scipy": "search",
}


def there(package: str) -> bool:
    """Whether a package of :data:`EXTRAS` is installed."""
    return find_spec(package) is not None


def need(what: str, package: str) -> None:
    """Refuses what needs a package that is not installed.

    Args:
        what: what needs it, the subject of the error's sentence.
        package: one of :data:`EXTRAS`.

    Raises:
        RunError: says how to install it.
    """
    if not there(package):
        raise RunError(f"{what} needs {package}, which is not installed here; {_how(package)} installs it.")


def missing(package: str) -> list[Missing]:
    """What a ground lacks that needs a package."""
    return [] if there(package) else [Missing(f"no Python package {package}", _how(package))]


def _how(package: str) -> str:
    return f'pip install "knee[{EXTRAS[package]}]"'
