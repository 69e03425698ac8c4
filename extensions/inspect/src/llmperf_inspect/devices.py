"""List the devices that the vendor plugins see here, and why a plugin sees none."""

from __future__ import annotations

from contextlib import suppress

import click
from llmperf import headings_option, json_option, print_json, print_table, print_text
from llmperf.errors import LlmperfError, UserError


@click.command("devices", epilog="\b\nExamples:\n  llmperf devices\n  llmperf devices --json\n")
@headings_option
@json_option
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """List the devices that the installed vendor plugins see here, and why a plugin sees none.

    Exits with 2 if a vendor plugin fails, after the devices of the others.
    """
    from llmperf.planning import Plugins, catalogue_problems, discover, find, probe_all

    probes, broken = probe_all()
    skipped = {}
    for vendor in sorted({found.name for found in discover() if found.role == "vendor"}):
        with suppress(LlmperfError):  # reported by the probe
            plugin = find("vendor", vendor)
            skipped[vendor] = catalogue_problems(plugin, Plugins([plugin]))
    if as_json:
        print_json({"probes": probes, "broken": broken, "skipped": skipped})
        ctx.exit(UserError.exit_code if broken else 0)
    print_table(
        ["vendor", "index", "model", "memory", "precisions", "driver"],
        [(probe.vendor, device.index, device.model + " (simulated)" * probe.simulated,
          None if device.memory_bytes is None else f"{device.memory_bytes / 2**30:.2f} GiB",
          ", ".join(probe.offers.precisions), probe.driver)
         for probe in probes for device in probe.devices],
    )  # fmt: skip
    for probe in probes:
        for problem in probe.problems:
            print_text(f"{probe.vendor}: {problem}")
    for line in broken:
        click.echo(line)
    for vendor, lines in skipped.items():
        for line in lines:
            print_text(f"{vendor}: {line}")
    ctx.exit(UserError.exit_code if broken else 0)
