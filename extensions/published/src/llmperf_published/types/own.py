"""Peaks and models that whoever imports a document adds to it, because no installed package has them."""

from __future__ import annotations

from dataclasses import dataclass

from llmperf.types import Model
from llmperf.vendorkit import PeakEntry


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
class OwnFacts:
    """What a document was checked with beside the installed packages. It is no part of the document's text."""

    devices: tuple[OwnDevice, ...] = ()
    """In the order of the file."""
    models: tuple[OwnModel, ...] = ()
    """In the order of the files."""
