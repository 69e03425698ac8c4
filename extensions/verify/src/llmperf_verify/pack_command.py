"""`llmperf pack`."""

from __future__ import annotations

from pathlib import Path

import click

from llmperf.cli.colour import warn
from llmperf.cli.completion import run_folders
from llmperf.cli.output import language_option

EXAMPLES = """\b
Examples:
  llmperf pack runs/ID -o submission.zip
  llmperf pack runs -o submission.zip --lang zh          every run in a folder
  llmperf validate submission.zip
"""


@click.command("pack", epilog=EXAMPLES)
@click.argument(
    "paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(path_type=Path), shell_complete=run_folders
)
@click.option("-o", "--output", metavar="FILE.zip", required=True, type=click.Path(path_type=Path),
              help="The archive to write.")  # fmt: skip
@language_option
@click.option("--logs", "with_logs", is_flag=True, help="Put the ranks' logs in too: read them first.")
@click.option("--hosts", "with_hosts", is_flag=True, help="Keep the names and addresses of hosts.")
def command(paths: tuple[Path, ...], output: Path, language: str, with_logs: bool, with_hosts: bool) -> None:
    """Make a submission of runs: results, plans, records, environment, a README, a manifest with hashes.

    PATH is a run folder, its result.json, or a folder of runs. A run with an error finding is not packed. A run that
    failed or was simulated is packed with a warning. Of runs through a launcher, names and addresses of hosts are
    replaced by node-000, address-000 and so on. The archive is written completely or not at all.
    """
    from llmperf.reporting.cells import counted
    from llmperf.submissions.pack import no_measurements, pack, run_folders

    runs = run_folders(paths)
    manifest = pack(runs, output, language, with_logs, with_hosts)
    for line in no_measurements(runs):
        warn(f"packed, but no measurement: {line}")
    packed = f"{counted(len(manifest.runs), 'run')}, {counted(len(manifest.files), 'file')}"
    click.echo(f"{output}: {packed}; check it: llmperf validate {output}")
