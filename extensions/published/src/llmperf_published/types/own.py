"""Peaks, models and statements that whoever imports a document adds to it."""

from __future__ import annotations

from dataclasses import dataclass

from llmperf.types import Model
from llmperf.types.devices import Dtype
from llmperf.types.units import Positive
from llmperf_vendorkit import PeakEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnDevice:
    """A device with its peaks, from the file of `llmperf import --peaks`."""

    file: str
    """Its name, without folders."""
    entry: PeakEntry
    """The device's table in that file, with source and date."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnModel:
    """A model, from the file of `llmperf import --model`."""

    file: str
    """Its name, without folders."""
    model: Model
    """The facts in that file, with their source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """Statements of the importer about rows, for what the document does not say."""

    by: str
    """Who said it, and how: `the importer, by --vendor nvidia --precision bf16`."""
    vendor: str | None = None
    """The vendor plugin of the devices."""
    device: str | None = None
    """The accelerator, in place of the environment's."""
    nodes: Positive | None = None
    """Machines."""
    devices_per_node: Positive | None = None
    """Accelerators in each."""
    devices: Positive | None = None
    """Accelerators in all."""
    model: str | None = None
    """Name of a model of the library."""
    precision: Dtype | None = None
    """Precision of the products."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnFacts:
    """Facts that a document was checked with beside the installed packages. They are not part of its text."""

    devices: tuple[OwnDevice, ...] = ()
    """In the order of the file."""
    models: tuple[OwnModel, ...] = ()
    """In the order of the files."""
    stated: Stated | None = None
    """Statements from the options of the import; None without any."""
