"""Plans a run: from a request to a plan, or to all the problems that prevent it. Public is what shows the inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmperf.lazy import lazily

if TYPE_CHECKING:
    from llmperf.cases.overlays import check_readable as check_readable
    from llmperf.cases.settings import describe as describe
    from llmperf.cases.settings import full_path as full_path
    from llmperf.cases.settings import known_paths as known_paths
    from llmperf.planning.host_facts import injecting as injecting
    from llmperf.planning.nodes import open_launcher as open_launcher
    from llmperf.planning.nodes import vendor_chooser as vendor_chooser
    from llmperf.planning.vendors import asked as asked
    from llmperf.planning.vendors import probe_all as probe_all
    from llmperf.plugins.discovery import Found as Found
    from llmperf.plugins.discovery import discover as discover
    from llmperf.plugins.discovery import find as find
    from llmperf.plugins.discovery import names as names
    from llmperf.plugins.facts import catalogue_problems as catalogue_problems
    from llmperf.plugins.facts import joined_facts as joined_facts
    from llmperf.plugins.faults import blamed_items as blamed_items
    from llmperf.plugins.faults import blaming as blaming
    from llmperf.plugins.faults import of_kind as of_kind
    from llmperf.plugins.faults import who as who
    from llmperf.plugins.installed import DISABLE as DISABLE
    from llmperf.plugins.installed import distribution as distribution
    from llmperf.plugins.installed import version as version
    from llmperf.plugins.loading import Plugins as Plugins
    from llmperf.plugins.loading import load_for as load_for
    from llmperf.plugins.loading import plugins_for as plugins_for
    from llmperf.plugins.mending import install as install
    from llmperf.plugins.mending import reinstall_command as reinstall_command
    from llmperf.plugins.mending import source as source
    from llmperf.plugins.mending import unmet_problem as unmet_problem
    from llmperf.plugins.own_packages import is_own as is_own
    from llmperf.plugins.own_packages import published as published
    from llmperf.plugins.requirements import unmet_requirements as unmet_requirements

__all__, __getattr__ = lazily(globals())
