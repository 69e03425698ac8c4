"""llmperf measures how fast an accelerator trains large language models.

Plugins may import the names of this module and of `llmperf.types`, `llmperf.hookspecs` and
`llmperf.errors`. Each name below is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llmperf.lazy import lazily

if TYPE_CHECKING:
    from llmperf.accounting.optimiser_step import learning_rate as learning_rate
    from llmperf.accounting.parameters import count_parameters as count_parameters
    from llmperf.accounting.precisions import precision_recipe as precision_recipe
    from llmperf.accounting.rank_layout import data_parallel_of as data_parallel_of
    from llmperf.accounting.rank_layout import parallelism_problems as parallelism_problems
    from llmperf.accounting.rank_layout import standard_layout as standard_layout
    from llmperf.accounting.rotary import rotary_frequencies as rotary_frequencies
    from llmperf.accounting.routing import ROUTING_ROWS as ROUTING_ROWS
    from llmperf.cases.fields import read_options as read_options
    from llmperf.cases.library import Library as Library
    from llmperf.cases.library import from_table as from_table
    from llmperf.cases.library import library as library
    from llmperf.cases.library import read_case as read_case
    from llmperf.cases.library import whole_library as whole_library
    from llmperf.cases.library import whole_library_for as whole_library_for
    from llmperf.cases.model_facts import check_model as check_model
    from llmperf.cases.resolve import challenge_seed as challenge_seed
    from llmperf.cases.settings import flattened as flattened
    from llmperf.cases.settings import read_setting as read_setting
    from llmperf.cli.colour import on_stdout as on_stdout
    from llmperf.cli.colour import painted as painted
    from llmperf.cli.colour import painted_severities as painted_severities
    from llmperf.cli.colour import warn as warn
    from llmperf.cli.completion import case_names as case_names
    from llmperf.cli.completion import device_names as device_names
    from llmperf.cli.completion import launcher_names as launcher_names
    from llmperf.cli.completion import model_names as model_names
    from llmperf.cli.completion import plugin_names as plugin_names
    from llmperf.cli.completion import run_folders as run_folders
    from llmperf.cli.open_command import OpenCommand as OpenCommand
    from llmperf.cli.options import Finite as Finite
    from llmperf.cli.options import Folder as Folder
    from llmperf.cli.options import Utf8 as Utf8
    from llmperf.cli.options import paths_argument as paths_argument
    from llmperf.cli.output import headings_option as headings_option
    from llmperf.cli.output import json_option as json_option
    from llmperf.cli.output import language_option as language_option
    from llmperf.cli.output import page_width as page_width
    from llmperf.cli.output import print_facts as print_facts
    from llmperf.cli.output import print_json as print_json
    from llmperf.cli.output import print_table as print_table
    from llmperf.cli.output import print_text as print_text
    from llmperf.cli.output import wide_option as wide_option
    from llmperf.cli.report import write_report as write_report
    from llmperf.cli.request import case_options as case_options
    from llmperf.cli.request import planned_case as planned_case
    from llmperf.cli.request import planned_task as planned_task
    from llmperf.cli.request import request_options as request_options
    from llmperf.files.json_files import MAX_DOCUMENT_BYTES as MAX_DOCUMENT_BYTES
    from llmperf.files.json_files import builtins as builtins
    from llmperf.files.json_files import convert as convert
    from llmperf.files.json_files import decode as decode
    from llmperf.files.json_files import encode_pretty as encode_pretty
    from llmperf.files.json_files import load as load
    from llmperf.files.json_files import open_regular as open_regular
    from llmperf.files.json_files import read_bytes as read_bytes
    from llmperf.files.json_files import sha256 as sha256
    from llmperf.files.json_files import writable as writable
    from llmperf.files.json_files import write_bytes as write_bytes
    from llmperf.files.text import printable as printable
    from llmperf.files.text import utc_time as utc_time
    from llmperf.files.user_files import cache_dir as cache_dir
    from llmperf.files.user_files import config_file as config_file
    from llmperf.files.user_files import read_toml as read_toml
    from llmperf.hookspecs import hookimpl as hookimpl
    from llmperf.launching.agent import agent_argv as agent_argv
    from llmperf.measuring.sampler import vendor_sampler as vendor_sampler
    from llmperf.planning.checks import expected_work as expected_work
    from llmperf.planning.host_facts import compact_hosts as compact_hosts
    from llmperf.planning.host_facts import interface_variables as interface_variables
    from llmperf.planning.plugin_checks import ARCHITECTURE as ARCHITECTURE
    from llmperf.planning.plugin_checks import OptionCheck as OptionCheck
    from llmperf.planning.plugin_checks import architecture_problems as architecture_problems
    from llmperf.planning.plugin_checks import expanded_fused_ops as expanded_fused_ops
    from llmperf.planning.plugin_checks import family_problem as family_problem
    from llmperf.planning.plugin_checks import fused_op_problems as fused_op_problems
    from llmperf.planning.plugin_checks import needed_features as needed_features
    from llmperf.planning.plugin_checks import option_choices as option_choices
    from llmperf.planning.plugin_checks import option_problems as option_problems
    from llmperf.planning.plugin_checks import setting_problem as setting_problem
    from llmperf.planning.plugin_checks import whole_number as whole_number
    from llmperf.planning.user_config import own_config as own_config
    from llmperf.planning.user_config import user_config as user_config
    from llmperf.planning.vendors import catalogued as catalogued
    from llmperf.planning.vendors import catalogued_names as catalogued_names
    from llmperf.planning.vendors import this_machine as this_machine
    from llmperf.plugins.facts import device_aliases as device_aliases
    from llmperf.plugins.facts import every_answer as every_answer
    from llmperf.plugins.facts import framework_answer as framework_answer
    from llmperf.plugins.facts import owned_answers as owned_answers
    from llmperf.plugins.facts import plugins_answering as plugins_answering
    from llmperf.plugins.mending import install_own as install_own
    from llmperf.plugins.mending import pip_command as pip_command
    from llmperf.plugins.packaged_commands import packaged_commands as packaged_commands
    from llmperf.results.disturbances import disturbances as disturbances
    from llmperf.runfolder.create import load_plan as load_plan
    from llmperf.runfolder.reader import rank_records as rank_records
    from llmperf.runfolder.reader import recorded as recorded
    from llmperf.runfolder.readings import busy_parts as busy_parts
    from llmperf.runfolder.readings import busy_text as busy_text
    from llmperf.running.given_run import GivenRun as GivenRun
    from llmperf.running.hosts_before import host_loads as host_loads
    from llmperf.running.measure import concluded as concluded
    from llmperf.tokens.batches import TokenBatches as TokenBatches
    from llmperf.tokens.batches import open_batches as open_batches
    from llmperf.tokens.draws import decays as decays
    from llmperf.tokens.draws import initial_constant as initial_constant
    from llmperf.tokens.draws import initial_normal as initial_normal
    from llmperf.tokens.draws import is_norm as is_norm
    from llmperf.tokens.draws import routing_table as routing_table

API_VERSION = 1
"""Major version of the hooks; the entry-point groups end with it."""

_MOVED = {
    "StepFigures": "llmperf_compare.steps.StepFigures",
    "AcceleratorDevice": "llmperf_vendorkit.AcceleratorDevice",
    "PeakEntry": "llmperf_vendorkit.PeakEntry",
    "PeakTable": "llmperf_vendorkit.PeakTable",
    "estimated_kinds": "llmperf.expected_work",
    "huggingface_config": "llmperf_huggingface.export.huggingface_config",
    "import_config": "llmperf_huggingface.importing.import_config",
    "model_text": "llmperf_inspect.model_text",
    "load_results": "llmperf_compare.load_results",
    "of_one_model": "llmperf_vendorkit.of_one_model",
    "open_encoder": "llmperf_datasets.text.open_encoder",
    "opened_results": "llmperf_compare.documents.opened_results",
    "opened_sheets": "llmperf_compare.documents.opened_results",
    "print_page": "llmperf_compare.page.print_page",
    "recorded_steps": "llmperf_compare.steps.recorded_steps",
    "tool_output": "llmperf_vendorkit.tool_output",
    "trace_ranks": "llmperf_estimate.traced_ranks.trace_ranks",
    "visible_devices": "llmperf_vendorkit.visible_devices",
}
"""Replacements for names that this module once had. They stay here as long as the major version of the hooks."""

__all__, _public = lazily(globals(), _MOVED, keep=False)
__all__ += ["API_VERSION", "__version__"]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from llmperf.plugins.installed import version

        return version("llmperf-core")
    return _public(name)
