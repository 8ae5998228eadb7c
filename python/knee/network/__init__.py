"""``knee.Network``: the network of a scenario under other programs' tests."""

from knee.network.net import Network
from knee.network.packets import Delivered, Dropped, End, FlowFigures, LinkFigures

__all__ = ["Delivered", "Dropped", "End", "FlowFigures", "LinkFigures", "Network"]
