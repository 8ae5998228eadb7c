"""``knee score``: one number for a congestion control that a program wrote, and what was worst (docs/score.md).

Candidates are foreign code. Their methods run in processes of their own, which know nothing of the network that they
are in (:mod:`knee.score.nursery`); the engine runs in others (:mod:`knee.score.worker`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from knee.score.api import evaluate
    from knee.score.cascade import Score
    from knee.score.session import Limits

__all__ = ["Limits", "Score", "evaluate"]


_HOME = {"Limits": "session", "Score": "cascade", "evaluate": "api"}


def __getattr__(name: str) -> Any:
    # The process of a candidate imports this package too, and none of it.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"knee.score.{_HOME[name]}"), name)
