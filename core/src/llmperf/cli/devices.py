"""`llmperf devices`."""

from __future__ import annotations

import click

from llmperf.cli.output import gib, json_option, print_json, print_table

EXAMPLES = """\b
Examples:
  llmperf devices
  llmperf devices --json
"""


@click.command("devices", epilog=EXAMPLES)
@json_option
def command(as_json: bool) -> None:
    """List the devices that the installed vendor plugins see here, and why a plugin sees none."""
    from llmperf.planning.vendors import probe_all, skipped_entries

    probes, broken = probe_all()
    skipped = skipped_entries()
    if as_json:
        print_json({"probes": probes, "broken": broken, "skipped": skipped})
        return
    print_table(
        ["vendor", "index", "model", "memory", "precisions", "driver"],
        [
            (
                probe.vendor,
                device.index,
                device.model + " (simulated)" * probe.simulated,
                gib(device.memory_bytes),
                ", ".join(probe.offers.precisions),
                probe.driver,
            )
            for probe in probes
            for device in probe.devices
        ],
    )
    for probe in probes:
        for problem in probe.problems:
            click.echo(f"{probe.vendor}: {problem}")
    for line in broken:
        click.echo(line)
    for vendor, lines in skipped.items():
        for line in lines:
            click.echo(f"{vendor}: {line}")
