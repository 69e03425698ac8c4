"""Find layouts of a framework that train differently from one rank, by random cases."""

from __future__ import annotations

import json
import shlex
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import llmperf
from llmperf.errors import UserError

EXAMPLES = """\b
Examples:
  llmperf fuzz --framework megatron_core --time-limit 600
  llmperf fuzz --framework pytorch --set sharding_stage=3 --set model=qwen3_tiny --set model.layers=2
  llmperf fuzz --framework torchtitan --reference pytorch --cases 50 --seed 7
"""


@click.command("fuzz", epilog=EXAMPLES)
@click.option("--framework", metavar="F", required=True, help="The framework to test.")
@click.option("--reference", metavar="F", help="Framework of the one rank; the same by default.")
@click.option("--devices", metavar="N", type=click.IntRange(2, 64), default=4, show_default=True, help="Ranks at most.")
@click.option("--set", "settings", metavar="PATH=VALUE", multiple=True,
              help="Fix one setting, also a fact of the model such as model.layers; may be repeated.")  # fmt: skip
@click.option("--vendor", metavar="V", help="Whose devices; the best here by default.")
@click.option("--seed", metavar="N", type=click.IntRange(min=0), default=0, show_default=True, help="Of the draws.")
@click.option("--time-limit", metavar="SECONDS", type=llmperf.Finite(min=1), default=300.0, show_default=True,
              help="Time after which no further case is compared.")  # fmt: skip
@click.option("--cases", metavar="N", type=click.IntRange(min=1), help="Cases at most.")
@click.option("--findings", metavar="N", type=click.IntRange(min=1), help="End after N cases that differ.")
@click.option("-o", "--out", metavar="FOLDER", type=llmperf.Folder(path_type=Path, file_okay=False),
              default=Path("fuzz"), show_default=True, help="New folder of the reports.")  # fmt: skip
@llmperf.json_option
@click.pass_context
def command(
    ctx: click.Context, /, framework: str, devices: int, seed: int, out: Path, as_json: bool, **options: Any
) -> None:
    """Compare random models and layouts on several ranks with the same contract on one rank.

    Cases are small; those whose plan is refused are not run. A case whose losses or gradient norms differ, with two
    seeds, by more than its precision explains is made as small as possible, and reported in FOLDER with the commands
    that show it. The seed determines the cases. An interruption ends the search and keeps what was found.

    Exits with 1 if something differs, 0 if not, 2 for bad input.
    """
    from llmperf_fuzz.report import write_report
    from llmperf_fuzz.search import Search
    from llmperf_fuzz.trials import Trials

    if out.exists() and any(out.iterdir()):
        raise UserError(f"--out {out}: expected a new or empty folder")
    reference, texts = options["reference"] or framework, options["settings"]
    words = ["llmperf", "fuzz", "--framework", framework, "--reference", reference, "--devices", str(devices)]
    typed = shlex.join([*words, *(word for text in texts for word in ("--set", text)), "--seed", str(seed)])
    began, findings = time.monotonic(), list[dict[str, Any]]()
    with Trials(framework, reference, devices, fixed_settings(texts), options["vendor"]) as trials:
        search = Search(space=trials.space, compare=trials.compare, seed=seed, say=say)
        for found in search.run(options["time_limit"], options["cases"]):
            say(f"finding {len(search.found)}: {found.outcome.summary}; running its commands")
            folder, case = out / f"finding-{len(search.found)}", trials.case(found.settings, found.seed)
            findings.append(write_report(folder, found, case, typed))
            if len(findings) == options["findings"]:
                break
    document = {
        "framework": framework, "reference": reference, "devices": devices, "seed": seed,
        "seconds": round(time.monotonic() - began, 1), "drawn": search.drawn, "refused": search.refused,
        "repeated": search.repeated, "cases": search.cases, "largest_share_of_limit": search.largest_share,
        "by_chance": search.by_chance, "interrupted": search.interrupted, "findings": findings,
    }  # fmt: skip
    if as_json:
        llmperf.print_json(document)
    else:
        show(document)
    ctx.exit(1 if findings else 130 if search.interrupted else 0)


def fixed_settings(texts: tuple[str, ...]) -> dict[str, Any]:
    """The values of `--set`, by path; UserError for a path that no case has."""
    fixed: dict[str, Any] = {}
    for text in texts:
        path, equals, written = (part.strip() for part in text.partition("="))
        if not equals or not path:
            raise UserError(f"--set {text}: expected path=value, such as --set tensor_parallel=2")
        value: Any = written
        with suppress(ValueError):
            value = json.loads(written.lower() if written.lower() in ("true", "false") else written)
        if path in ("model", "contract.model"):
            fixed["model"] = written
        elif path.startswith("model."):
            fixed[path] = tuple(value) if isinstance(value, list) else value
        else:
            path, fixed[path] = llmperf.read_setting(path, value, "--set")
            if path.startswith("data.") or path in ("tuning.framework", "tuning.devices", "tuning.nodes"):
                raise UserError(f"--set {path}: expected a setting of the contract, the layout or the framework")
    return fixed


def say(line: str) -> None:
    """Print a line of progress."""
    click.echo(llmperf.printable(line, " "), err=True)


def show(document: dict[str, Any]) -> None:
    """Print what was found."""
    rate = 60 * document["cases"] / max(document["seconds"], 0.1)
    click.echo(
        f"{document['cases']} cases of {document['framework']} on at most {document['devices']} ranks,"
        f" and on one of {document['reference']}, {rate:.0f} a minute; {document['refused']} plans were refused"
    )
    if document["by_chance"]:
        click.echo(f"{len(document['by_chance'])} cases differ with one seed and not with the next")
    for finding in document["findings"]:
        departures = ", ".join(f"{path.rpartition('.')[2]}={value}" for path, value in finding["departures"].items())
        click.echo(f"{llmperf.printable(finding['summary'], ' ')}: {departures}; see {finding['folder']}/report.md")
    if not document["findings"]:
        share = document["largest_share_of_limit"]
        click.echo(f"no case differs; the largest difference is {share:.0%} of what its precision explains")
