"""The frozen dataclasses that cross the contract between core, vendors and frameworks.

They are grouped by subject and imported when first used, because creating a dataclass takes start-up time.
Field names carry units; unknown is `None`, never 0 or a guess.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmperf.lazy import lazily

if TYPE_CHECKING:
    from llmperf.types.commands import CalledCommand as CalledCommand
    from llmperf.types.commands import CalledReport as CalledReport
    from llmperf.types.commands import CalledRun as CalledRun
    from llmperf.types.commands import CalledValidate as CalledValidate
    from llmperf.types.commands import CommandOptions as CommandOptions
    from llmperf.types.commands import PlannedCase as PlannedCase
    from llmperf.types.commands import PlannedChoice as PlannedChoice
    from llmperf.types.commands import PlannedRun as PlannedRun
    from llmperf.types.commands import PlannedTask as PlannedTask
    from llmperf.types.commands import RunChoice as RunChoice
    from llmperf.types.commands import RunSeries as RunSeries
    from llmperf.types.devices import Device as Device
    from llmperf.types.devices import DeviceEvent as DeviceEvent
    from llmperf.types.devices import DeviceInfo as DeviceInfo
    from llmperf.types.devices import DeviceSample as DeviceSample
    from llmperf.types.devices import Dtype as Dtype
    from llmperf.types.devices import Facts as Facts
    from llmperf.types.devices import HostCheck as HostCheck
    from llmperf.types.devices import Offers as Offers
    from llmperf.types.devices import PeakFlops as PeakFlops
    from llmperf.types.devices import Probe as Probe
    from llmperf.types.devices import ThrottleReason as ThrottleReason
    from llmperf.types.documents import DocumentKind as DocumentKind
    from llmperf.types.documents import FileFindings as FileFindings
    from llmperf.types.documents import Fingerprint as Fingerprint
    from llmperf.types.documents import ResultSection as ResultSection
    from llmperf.types.documents import Rule as Rule
    from llmperf.types.documents import Severity as Severity
    from llmperf.types.documents import Verdict as Verdict
    from llmperf.types.documents import Violation as Violation
    from llmperf.types.flop_counts import FlopCount as FlopCount
    from llmperf.types.flop_counts import FlopsPerToken as FlopsPerToken
    from llmperf.types.flop_counts import Precision as Precision
    from llmperf.types.flop_counts import PrecisionRecipe as PrecisionRecipe
    from llmperf.types.flop_counts import Workload as Workload
    from llmperf.types.launching import Interpreter as Interpreter
    from llmperf.types.launching import Launcher as Launcher
    from llmperf.types.launching import Node as Node
    from llmperf.types.launching import NodeCommand as NodeCommand
    from llmperf.types.launching import NodeRequest as NodeRequest
    from llmperf.types.launching import Submission as Submission
    from llmperf.types.layout import Batch as Batch
    from llmperf.types.layout import Layout as Layout
    from llmperf.types.logged import LoggedFacts as LoggedFacts
    from llmperf.types.logged import LoggedFailure as LoggedFailure
    from llmperf.types.logged import LoggedStep as LoggedStep
    from llmperf.types.models import ImportedModel as ImportedModel
    from llmperf.types.models import Latent as Latent
    from llmperf.types.models import Mixture as Mixture
    from llmperf.types.models import Model as Model
    from llmperf.types.models import RopeScaling as RopeScaling
    from llmperf.types.models import StatedPart as StatedPart
    from llmperf.types.node_tasks import NodesChecked as NodesChecked
    from llmperf.types.node_tasks import NodeTask as NodeTask
    from llmperf.types.node_tasks import NodeWork as NodeWork
    from llmperf.types.node_tasks import PairEnd as PairEnd
    from llmperf.types.node_tasks import ReachedNode as ReachedNode
    from llmperf.types.node_tasks import ReachedNodes as ReachedNodes
    from llmperf.types.node_tasks import ScreeningCheck as ScreeningCheck
    from llmperf.types.observing import Logger as Logger
    from llmperf.types.observing import Observer as Observer
    from llmperf.types.observing import Progress as Progress
    from llmperf.types.observing import StepProgress as StepProgress
    from llmperf.types.plan import ModelState as ModelState
    from llmperf.types.plan import Needs as Needs
    from llmperf.types.plan import Plan as Plan
    from llmperf.types.plan import Script as Script
    from llmperf.types.plan import WorkerPlan as WorkerPlan
    from llmperf.types.plan_checks import ExpectedWork as ExpectedWork
    from llmperf.types.plan_checks import PlanCheck as PlanCheck
    from llmperf.types.plan_checks import Problem as Problem
    from llmperf.types.rank_tasks import FinishedTask as FinishedTask
    from llmperf.types.rank_tasks import OperationToTime as OperationToTime
    from llmperf.types.rank_tasks import PreparedOperation as PreparedOperation
    from llmperf.types.rank_tasks import RankAtTask as RankAtTask
    from llmperf.types.rank_tasks import RankTask as RankTask
    from llmperf.types.rank_tasks import TimedOperations as TimedOperations
    from llmperf.types.rates import CollectiveRate as CollectiveRate
    from llmperf.types.rates import DeviceRates as DeviceRates
    from llmperf.types.rates import LinkRate as LinkRate
    from llmperf.types.rates import MatmulRate as MatmulRate
    from llmperf.types.records import DeferredScalar as DeferredScalar
    from llmperf.types.records import ExpertsRecord as ExpertsRecord
    from llmperf.types.records import FailureRecord as FailureRecord
    from llmperf.types.records import FurtherRecord as FurtherRecord
    from llmperf.types.records import MemorySample as MemorySample
    from llmperf.types.records import PhaseRecord as PhaseRecord
    from llmperf.types.records import ProfileRecord as ProfileRecord
    from llmperf.types.records import RankRecord as RankRecord
    from llmperf.types.records import RankRecords as RankRecords
    from llmperf.types.records import StepOutput as StepOutput
    from llmperf.types.records import StepRecord as StepRecord
    from llmperf.types.records import Trainer as Trainer
    from llmperf.types.remote import Agents as Agents
    from llmperf.types.remote import EnvironmentReport as EnvironmentReport
    from llmperf.types.remote import InstalledPlugin as InstalledPlugin
    from llmperf.types.remote import NodesReached as NodesReached
    from llmperf.types.remote import OpenLauncher as OpenLauncher
    from llmperf.types.remote import RemoteNodes as RemoteNodes
    from llmperf.types.result import Finding as Finding
    from llmperf.types.result import PluginInfo as PluginInfo
    from llmperf.types.result import Result as Result
    from llmperf.types.sheet import Baseline as Baseline
    from llmperf.types.sheet import Curve as Curve
    from llmperf.types.sheet import Curves as Curves
    from llmperf.types.sheet import Reporter as Reporter
    from llmperf.types.sheet import Rounding as Rounding
    from llmperf.types.sheet import Row as Row
    from llmperf.types.sheet import Section as Section
    from llmperf.types.sheet import Sheet as Sheet
    from llmperf.types.sheet import Source as Source
    from llmperf.types.spec import OPTIONAL_SETTINGS as OPTIONAL_SETTINGS
    from llmperf.types.spec import Case as Case
    from llmperf.types.spec import Change as Change
    from llmperf.types.spec import Contract as Contract
    from llmperf.types.spec import DataSource as DataSource
    from llmperf.types.spec import Lora as Lora
    from llmperf.types.spec import Optimizer as Optimizer
    from llmperf.types.spec import ReadTokens as ReadTokens
    from llmperf.types.spec import RunSpec as RunSpec
    from llmperf.types.spec import Scalar as Scalar
    from llmperf.types.spec import Tuning as Tuning
    from llmperf.types.texts import Text as Text
    from llmperf.types.tracing import HostWait as HostWait
    from llmperf.types.tracing import ProfiledOperation as ProfiledOperation
    from llmperf.types.tracing import StepProfile as StepProfile
    from llmperf.types.tracing import StepTrace as StepTrace
    from llmperf.types.tracing import TracedCollective as TracedCollective
    from llmperf.types.tracing import TracedMemory as TracedMemory
    from llmperf.types.tracing import TracedOperation as TracedOperation

_MOVED = {
    "Estimate": "llmperf_estimate.types.Estimate",
    "OpenedSheet": "llmperf.types.Sheet",
    "SequencesRecord": "llmperf_verify.first_losses.SequencesRecord",
    "TimedOperation": "llmperf_peak.rank.TimedOperation",
    "TracerUse": "llmperf_estimate.types.TracerUse",
}
"""Replacements for names that this module once had. They stay here as long as the major version of the hooks."""

__all__, __getattr__ = lazily(globals(), _MOVED)
