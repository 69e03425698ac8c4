"""Record in docs/plugins.json what the conformance kit says of those plugins of docs/plugins.toml that are installed.

./dev python docs/check_plugins.py           # all of them
./dev python docs/check_plugins.py cpu zero  # only these
"""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import datetime, timezone

from llmperf.plugins.discovery import discover
from llmperf.plugins.installed import version
from rendering.directory import CHECKS, plugins


def main(names: list[str]) -> None:
    """Run the kit without its trainings, one plugin after the other."""
    checks = json.loads(CHECKS.read_text()) if CHECKS.exists() else {}
    installed = {(found.role, found.name, found.distribution) for found in discover()}
    for plugin in plugins():
        if (plugin.role, plugin.name, plugin.package) not in installed or (names and plugin.name not in names):
            continue
        command = [sys.executable, "-m", "llmperf", "check-plugin", plugin.name, "--fast", "--json"]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        try:
            outcome = json.loads(done.stdout)
        except ValueError:
            print(f"{plugin.name}: no answer, exit code {done.returncode}")
            continue
        checks[f"{plugin.role} {plugin.name}"] = {
            "version": version(plugin.package),
            "llmperf": version("llmperf-core"),
            "date": datetime.now(timezone.utc).date().isoformat(),
            **{state: outcome[state] for state in ("passed", "failed", "skipped")},
        }
        print(f"{plugin.name}: {outcome['passed']} passed, {outcome['failed']} failed, {outcome['skipped']} skipped")
    CHECKS.write_text(json.dumps(dict(sorted(checks.items())), indent=2) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
