"""``knee score``: one number for a congestion control that a program wrote, and what was worst (docs/score.md).

Candidates are foreign code. Their methods run in processes of their own, which know nothing of the network that they
are in (:mod:`knee.score.nursery`); the engine runs in others (:mod:`knee.score.worker`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from knee.score.cascade import Score, evaluate
    from knee.score.session import Limits

__all__ = ["Limits", "Score", "evaluate"]


def __getattr__(name: str) -> Any:
    # The process of a candidate imports this package too, and none of it.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from knee.score import cascade, session

    return session.Limits if name == "Limits" else getattr(cascade, name)
