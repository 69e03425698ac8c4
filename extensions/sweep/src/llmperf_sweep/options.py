"""`--matrix` and `--scale` of `llmperf run`, with what belongs to them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from llmperf.errors import UserError
from llmperf.types import CalledRun, CommandOptions

EXAMPLES = """\
  llmperf run --matrix micro_batches.toml
  llmperf run --matrix micro_batches.toml --resume
  llmperf run default --scale 1,2,4 --scaling strong
"""


class Part(click.types.StringParamType):
    """`I/N`: a part of a matrix."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Both numbers; click's error unless I is from 1 to N."""
        if isinstance(value, tuple):
            return value
        part, slash, parts = str(value).partition("/")
        if not (slash and part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts) <= 10_000):
            self.fail(f"expected I/N with I from 1 to N, such as 2/4; found {value!r}.", param, ctx)
        return int(part), int(parts)


def run_options() -> CommandOptions:
    """The options of `llmperf run`."""
    return CommandOptions(
        options=[
            click.Option(["--matrix"], metavar="FILE", type=click.Path(path_type=Path),
                         help="Run all cells of a matrix file, in runs/<name of the file>/."),
            click.Option(["--resume"], is_flag=True,
                         help="Continue a matrix: runs that have ended are not repeated."),
            click.Option(["--part"], metavar="I/N", type=Part(),
                         help="Run one of N parts of a matrix; implies --resume."),
            click.Option(["--scale"], metavar="1,2,4",
                         help="Measure with these numbers of ranks; nodes=1,2,4: with these numbers of nodes."),
            click.Option(["--scaling"], type=click.Choice(["weak", "strong"]), default="weak", show_default=True,
                         help="With --scale: the global batch grows with the ranks, or stays."),
        ],
        begin=begin,
        examples=EXAMPLES,
    )  # fmt: skip


def begin(called: CalledRun) -> int | None:
    """Run `--matrix` or `--scale` in place of one run; None without them."""
    values = called.values
    matrix, scale = values["matrix"], values["scale"]
    if scale is None and called.given("scaling"):
        raise click.UsageError("--scaling belongs to --scale.")
    if matrix is None and scale is None:
        if values["resume"] or values["part"]:
            raise click.UsageError("--resume and --part belong to --matrix FILE or --scale.")
        return None
    if values.get("challenge") is not None:
        raise click.UsageError("--challenge is for one run: not with --repeat, --matrix or --scale.")
    code = _handed_over(called)
    if code is not None:
        return code
    if matrix is not None and scale is not None:
        raise UserError("--scale: expected without --matrix, which has numbers of devices of its own")
    with called.series() as series:
        if matrix is None:
            from llmperf_sweep.scaling_runs import run_scaling

            return run_scaling(called, series)
        from llmperf_sweep.matrix import run_matrix
        from llmperf_sweep.matrix_file import read_matrix

        return run_matrix(called, series, read_matrix(matrix))


def _handed_over(called: CalledRun) -> int | None:
    """The exit code if the launcher has the whole command run elsewhere, with the nodes that the largest run needs."""
    if called.values["launcher"] == "local":
        return None
    from llmperf_sweep.matrix_file import read_matrix
    from llmperf_sweep.scaling_runs import parse_scale

    if called.values["matrix"] is None:
        what, counts = parse_scale(called.values["scale"])
        choice = called.choice
        nodes = max(counts) if what == "nodes" else -(-max(counts) // (choice.devices or max(counts)))
        return called.handed_over([replace(choice, settings={**choice.settings, "tuning.nodes": nodes})])
    matrix = read_matrix(called.values["matrix"])
    tasks = 1 if called.values["part"] else matrix.tasks
    return called.handed_over([cell.choice(matrix.folder) for cell in matrix.cells], tasks)
