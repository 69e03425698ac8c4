"""The device models that a vendor plugin knows without seeing them."""

from __future__ import annotations

from llmperf.errors import PluginError
from llmperf.plugins.discovery import Found
from llmperf.plugins.faults import blamed_items, blaming, of_kind, who
from llmperf.plugins.loading import Plugins
from llmperf.types.devices import Probe


def catalogue(found: Found, plugins: Plugins) -> list[Probe]:
    """The models that a loaded vendor plugin knows, if any; PluginError if it raises or an entry has no device."""
    hook = "llmperf_catalogue"
    if not plugins.answers(hook):
        return []
    with blaming(found, hook):
        given = plugins.ask(hook)
    entries = [of_kind(found, hook, entry, Probe) for entry in blamed_items(found, hook, given)]
    if not all(entry.devices for entry in entries):
        raise PluginError(f"{who(found)}: {hook} has an entry without a device")
    return entries


def catalogue_problems(found: Found, plugins: Plugins) -> list[str]:
    """The problems that a loaded vendor plugin reports for its own catalogue, or the reason why the hook fails."""
    try:
        entries = catalogue(found, plugins)
    except PluginError as error:
        return [str(error)]
    return list(dict.fromkeys(line for entry in entries for line in entry.problems))
