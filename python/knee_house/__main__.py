"""``python -m knee_house``."""

from __future__ import annotations

from knee.cli import entry
from knee_house.commands import app

if __name__ == "__main__":
    entry(app, "python -m knee_house")
