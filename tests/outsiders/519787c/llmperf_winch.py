"""An extension with a launcher, which offers no nodes of its own."""

from dataclasses import replace

from llmperf import hookimpl


class Winch:
    name = "winch"

    def commands(self, nodes):
        return [replace(node, argv=("nice", *node.argv)) for node in nodes]


@hookimpl
def llmperf_launchers():
    return [Winch()]
