"""The launcher for this machine."""

from __future__ import annotations

from collections.abc import Sequence

from llmperf.errors import UserError
from llmperf.types.plan import NodeCommand


class LocalLauncher:
    """Runs the one node's agent here, as it is."""

    name = "local"

    def commands(self, nodes: Sequence[NodeCommand]) -> Sequence[NodeCommand]:
        """The given command; UserError for more than one node."""
        if len(nodes) != 1:
            raise UserError(
                f"launcher 'local': runs 1 node, not {len(nodes)}; choose a launcher that reaches the others"
            )
        return nodes
