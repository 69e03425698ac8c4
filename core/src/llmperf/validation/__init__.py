"""Validation: rules over documents, kinds of document, and the engine. The names below are public, for plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmperf.lazy import lazily

if TYPE_CHECKING:
    from llmperf.cases.model_facts import misfits as misfits
    from llmperf.files.text import printable as printable
    from llmperf.plugins.installed import distribution as distribution
    from llmperf.plugins.installed import source_hash as source_hash
    from llmperf.plugins.installed import version as version
    from llmperf.plugins.loading import CORE as CORE
    from llmperf.plugins.own_packages import is_own as is_own
    from llmperf.results.sections import known_sections as known_sections
    from llmperf.runfolder.contents import RunRecords as RunRecords
    from llmperf.runfolder.contents import read_run as read_run
    from llmperf.runfolder.endings import SeenPhase as SeenPhase
    from llmperf.runfolder.filenames import record_files as record_files
    from llmperf.runfolder.reader import by_step as by_step
    from llmperf.runfolder.reader import merged as merged
    from llmperf.runfolder.reader import samples_of as samples_of
    from llmperf.runfolder.readings import NodeReadings as NodeReadings
    from llmperf.runfolder.totals import MOST_EVEN_POINTS as MOST_EVEN_POINTS
    from llmperf.runfolder.totals import RankTotals as RankTotals
    from llmperf.runfolder.totals import mean_loss as mean_loss
    from llmperf.tokens import SYNTHETIC as SYNTHETIC
    from llmperf.tokens import synthetic_fingerprint as synthetic_fingerprint
    from llmperf.types.devices import device_names as device_names
    from llmperf.validation.catalogue import RULESET as RULESET
    from llmperf.validation.catalogue import Catalogue as Catalogue
    from llmperf.validation.catalogue import open_catalogue as open_catalogue
    from llmperf.validation.catalogue import whole_catalogue as whole_catalogue
    from llmperf.validation.check import Validator as Validator
    from llmperf.validation.check import findings as findings
    from llmperf.validation.check import judgement as judgement
    from llmperf.validation.core_kinds import json_kind as json_kind
    from llmperf.validation.document_files import Document as Document
    from llmperf.validation.document_files import ReadDocument as ReadDocument
    from llmperf.validation.document_files import documents_in as documents_in
    from llmperf.validation.document_files import found_documents as found_documents
    from llmperf.validation.document_files import read_document as read_document
    from llmperf.validation.document_files import read_run_result as read_run_result
    from llmperf.validation.plugin_data import MEMORY_SLACK as MEMORY_SLACK
    from llmperf.validation.plugin_data import VendorCatalogue as VendorCatalogue
    from llmperf.validation.plugin_data import about as about
    from llmperf.validation.plugin_data import departures as departures
    from llmperf.validation.plugin_data import flops_of as flops_of
    from llmperf.validation.plugin_data import given_peak as given_peak
    from llmperf.validation.plugin_data import installed as installed
    from llmperf.validation.plugin_data import installed_names as installed_names
    from llmperf.validation.plugin_data import installed_vendors as installed_vendors
    from llmperf.validation.plugin_data import known_case as known_case
    from llmperf.validation.plugin_data import known_library as known_library
    from llmperf.validation.plugin_data import known_model as known_model
    from llmperf.validation.plugin_data import vendor_catalogue as vendor_catalogue
    from llmperf.validation.plugin_data import vendor_trouble as vendor_trouble
    from llmperf.validation.reading import pointer as pointer
    from llmperf.validation.reading import shown as shown
    from llmperf.validation.rules.conditions import LOSS_OVER_UNTRAINED as LOSS_OVER_UNTRAINED
    from llmperf.validation.rules.conditions import untrained_loss as untrained_loss
    from llmperf.validation.rules.utilisation import flop_counters as flop_counters
    from llmperf.validation.rules.utilisation import flops_counted_here as flops_counted_here
    from llmperf.validation.rules.utilisation import flops_recounted as flops_recounted
    from llmperf.validation.rules.utilisation import flops_stated as flops_stated
    from llmperf.validation.violations import Check as Check
    from llmperf.validation.violations import close as close
    from llmperf.validation.violations import deviates as deviates
    from llmperf.validation.violations import differs as differs
    from llmperf.validation.violations import figure as figure
    from llmperf.validation.violations import rule as rule
    from llmperf.validation.violations import rules_in as rules_in
    from llmperf.validation.violations import spec_of as spec_of

__all__, __getattr__ = lazily(globals())
