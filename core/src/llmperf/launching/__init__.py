"""Agents and the controller. Public is what packages need that have agents work on other nodes or start programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmperf.lazy import lazily

if TYPE_CHECKING:
    from llmperf.launching.agent import inherited_environment as inherited_environment
    from llmperf.launching.agent import python_module as python_module
    from llmperf.launching.agent import rank_environment as rank_environment
    from llmperf.launching.run_here import load_here as load_here
    from llmperf.launching.run_here import node_run as node_run
    from llmperf.launching.run_here import this_host as this_host
    from llmperf.measuring.loop import finite as finite
    from llmperf.measuring.processes import TAG as TAG
    from llmperf.measuring.processes import end_with_parent as end_with_parent
    from llmperf.measuring.processes import leave as leave
    from llmperf.measuring.processes import left_of_run as left_of_run
    from llmperf.measuring.processes import sweep as sweep
    from llmperf.measuring.worker import check_parameters as check_parameters
    from llmperf.measuring.worker import startup_modules as startup_modules
    from llmperf.measuring.worker import train_rank as train_rank
    from llmperf.planning.environment_report import PROGRAM as PROGRAM
    from llmperf.planning.environment_report import environment_report as environment_report
    from llmperf.planning.host_facts import package_versions as package_versions
    from llmperf.planning.host_facts import this_interpreter as this_interpreter
    from llmperf.runfolder.create import create_run_folder as create_run_folder
    from llmperf.runfolder.create import held as held
    from llmperf.runfolder.endings import RECORD_FOLDERS as RECORD_FOLDERS
    from llmperf.runfolder.endings import Ending as Ending
    from llmperf.runfolder.endings import ReachedNode as ReachedNode
    from llmperf.runfolder.endings import files_of_node as files_of_node
    from llmperf.runfolder.endings import read_ending as read_ending
    from llmperf.runfolder.endings import read_nodes as read_nodes
    from llmperf.runfolder.endings import save_nodes as save_nodes
    from llmperf.runfolder.endings import sound_report as sound_report
    from llmperf.runfolder.filenames import node_log_path as node_log_path
    from llmperf.runfolder.logs import HEAD_BYTES as HEAD_BYTES
    from llmperf.runfolder.logs import TAIL_BYTES as TAIL_BYTES
    from llmperf.runfolder.reader import Moment as Moment

__all__, __getattr__ = lazily(globals(), keep=False)
