"""``python -m knee``."""

from knee.cli import entry

entry()
