"""What a published document says: `published.json`, a pure function of the document's text and the library.

A document has one setting (environment, strategy, batch defaults) and some rows, each a result of its own. Figures
keep what was printed beside the number; what the document does not say is None, never a guess.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from llmperf.types.devices import Precision
from llmperf.types.spec import Change
from llmperf.types.units import Count, Positive

SectionKind = Literal["hardware", "software", "parallelism", "optimisation", "batch", "general"]
"""What the entries of a section are about."""

TableKind = Literal["general", "performance", "other"]
"""`general`: name, value, remark; `performance`: a result in each row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The document as it was read."""

    name: str
    """Of its file, without folders."""
    sha256: str
    """Of its bytes."""
    lines: Count
    """How many it has."""
    language: Literal["en", "zh"]
    """Of its headings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A remark that belongs to no field."""

    line: Positive
    """Where it begins in the source."""
    text: str
    """As printed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """Something that was not understood. It stands here so that nothing is dropped in silence."""

    line: Positive
    """Where it stands in the source."""
    text: str
    """As printed."""
    reason: str
    """What was expected in its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of a section: a label and what it says."""

    line: Positive
    """Where it begins in the source."""
    label: str
    """As printed; empty where the line has none."""
    name: str | None
    """What the label means, such as `accelerator`, `driver`, `seq_len`, `dataset`; None where that is not known."""
    text: str
    """What it says, as printed."""
    remark: str = ""
    """The third column of the general table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of the document, by its heading."""

    line: Positive
    """Of the heading."""
    heading: str
    """As printed, such as `H800 software environment`."""
    kind: SectionKind
    """What it is about."""
    entries: tuple[Entry, ...]
    """In their order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of a table."""

    header: str
    """As it stands in the source."""
    name: str | None
    """What it means, such as `throughput`, `memory`, `mfu`; None where that is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """One row of a table, below the headers."""

    line: Positive
    """Where it stands in the source."""
    cells: tuple[str, ...]
    """As they stand in the source, Markdown included; as many as the source has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table, cell by cell."""

    line: Positive
    """Of the headers."""
    heading: str
    """What stands above it, as printed."""
    kind: TableKind
    """What it holds."""
    columns: tuple[Column, ...]
    """In their order."""
    rows: tuple[TableRow, ...]
    """All that are there, also those that name a group of rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A printed number and what it stands for."""

    text: str
    """The cell as printed, without Markdown."""
    value: float | None
    """The number in the field's unit: a share for 38.6 %, tokens for 4M. None where it is withheld."""
    printed: str | None = None
    """Its digits as printed: `38.6`. What a rule computes is held against these, rounded or cut off. None where the
    cell gives an expression and no outcome."""
    scale: float = 1.0
    """value / printed: 0.01 for percent, 1e6 for `4M`."""
    unit: str | None = None
    """As printed: `tokens/s`, `GB`, `%`."""
    expression: str | None = None
    """How the cell says that it was computed: `16.67 * 2048 / 8`."""
    computed: float | None = None
    """What that expression gives, in printed units."""

    @property
    def bounds(self) -> tuple[float, float]:
        """The values that round (half up) or are cut off to what is printed: low inclusive, high exclusive.

        ValueError where there is no value.
        """
        if self.value is None:
            raise ValueError(f"no number in {self.text!r}")
        if self.printed is None:
            return self.value, self.value
        mantissa, _, exponent = self.printed.lower().partition("e")
        step = 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2])) * self.scale
        low, high = (step / 2, step) if self.value >= 0 else (step, step / 2)
        return self.value - low, self.value + high

    def admits(self, value: float, slack: float = 1e-9) -> bool:
        """Whether `value` may have been printed as this figure: rounded or cut off, or by a relative `slack` beside."""
        low, high = self.bounds
        margin = slack * max(abs(low), abs(high))
        return low - margin <= value <= high + margin


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPart:
    """One term of a memory cell: `46.80*2` is 46.80 on each of 2 devices."""

    each: Figure
    """What each device holds, in the cell's unit."""
    devices: Positive | None
    """How many; None where the cell does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedMemory:
    """A memory cell: `32/40`, `70.09 * 8 GB`, `46.80*2 + 38.93*2 + 31.74*2 + 26.92*2 GB`."""

    text: str
    """The cell as printed, without Markdown."""
    used: tuple[MemoryPart, ...]
    """What is in use; several where it is told for each pipeline stage. Empty where it is withheld."""
    total: Figure | None
    """Of one device; None where the cell does not say."""
    unit: str | None
    """As the cell prints it, else as the document explains it; None where neither does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigurationName:
    """The name of a configuration, which says what it is for: `config_TP2PP4SH1SP1A10080Gx1x8`."""

    line: Positive
    """Where it stands in the source."""
    text: str
    """As printed."""
    device: str | None = None
    """The accelerator it is for: `A100`."""
    memory: Positive | None = None
    """Of that accelerator, GB."""
    nodes: Positive | None = None
    """Machines."""
    devices_per_node: Positive | None = None
    """Accelerators in each."""
    degrees: Mapping[str, int] = field(default_factory=dict)
    """By their printed names: TP, PP, DP, SH (sharding stage), SP (sharding degree), EP, ..."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Formula:
    """How the document says that the global batch follows from other settings."""

    line: Positive
    """Where it stands in the source."""
    text: str
    """As printed."""
    numerator: tuple[str, ...]
    """Names of the factors: `micro_batch`, `gradient_accumulation`, `data_parallel`, `world_size`, ..."""
    denominator: tuple[str, ...] = ()
    """What is divided by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a row says of its global batch: `GBS=1024=4M tokens`, `(global bs = 4M tokens)`."""

    text: str
    """As printed."""
    global_batch: Figure | None
    """Sequences in one optimiser step."""
    tokens: Figure | None
    """Tokens in one optimiser step. `4M` may mean 4 x 10^6 or 4 x 2^20: a rule has to admit both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedHardware:
    """What a row was run on."""

    configuration: str | None
    """The cell as printed, without Markdown: `A100单机8卡（1x8*80G）`."""
    device: str | None
    """The accelerator that the row names: `A100`."""
    device_model: str | None
    """The accelerator that the environment names; None where it names several or none."""
    nodes: Positive | None
    """Machines."""
    devices_per_node: Positive | None
    """Accelerators in each."""
    devices: Positive | None
    """Accelerators in all, where the row counts them in words (`16卡`)."""
    device_memory: Positive | None
    """Of one accelerator as the row names it (`80G`), GB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedLayout:
    """How ranks share the model, as far as it is said."""

    tensor_parallel: Positive | None = None
    """Ranks that split each layer."""
    pipeline_parallel: Positive | None = None
    """Stages that the layers are divided into."""
    data_parallel: Positive | None = None
    """Ranks that see different data, only where it is printed."""
    sharding_stage: Literal[0, 1, 2, 3] | None = None
    """0: replicated; 1: optimiser states; 2: and gradients; 3: and parameters."""
    sharding_degree: Positive | None = None
    """Ranks that share one copy of the sharded state."""
    other: Mapping[str, int] = field(default_factory=dict)
    """Further degrees by their printed names: EP, CP, ..."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedBatch:
    """Batch settings, as far as they are said or follow."""

    micro_batch: Positive | None = None
    """Sequences in one forward pass of one data-parallel rank."""
    gradient_accumulation: Positive | None = None
    """Forward passes in one optimiser step."""
    data_parallel: Positive | None = None
    """Ranks that see different data."""
    global_batch: Positive | None = None
    """Sequences in one optimiser step: computed from the three where all are known."""
    seq_len: Positive | None = None
    """Tokens in one sequence."""
    origins: Mapping[str, str] = field(default_factory=dict)
    """Where each comes from: `fix_hp`, `batch defaults`, `nodes x devices / (TP x PP)`, ..."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedMetrics:
    """The figures of a row. None where there is no such column; a Figure without value where it is withheld."""

    tokens_per_second_per_device: Figure | None = None
    """Throughput of one device."""
    tokens_per_second: Figure | None = None
    """Throughput of all devices, where the table gives that."""
    loss: Figure | None = None
    """Training loss."""
    mfu: Figure | None = None
    """A share; the value of 38.6 % is 0.386."""
    memory: PublishedMemory | None = None
    """Device memory."""
    aligned: bool | None = None
    """Whether the row says that its losses agree with the reference's; None where it does not say."""
    evaluation: Mapping[str, Figure] = field(default_factory=dict)
    """Accuracies and the like, by their column's header."""
    other: Mapping[str, Figure] = field(default_factory=dict)
    """Numbers of columns that are not known, by their header."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRow:
    """One published result."""

    line: Positive
    """Where it stands in the source."""
    table: Count
    """Index of its table in the document."""
    row: Count
    """Index of its row in that table."""
    group: str | None
    """The row of the table that stands above several as their heading: `LLaMA-13B`."""
    model: str | None
    """Name of the model in the library; None where it has none, or the text does not say which."""
    model_text: str | None
    """As printed."""
    case: str | None
    """Name of the case in the library that is on this model, with this framework; None where there is no one such."""
    framework: str | None
    """Name of the framework plugin that the text points to; None where it points to none."""
    variant: bool
    """Whether the row changes the contract of its case or, without a case, of the document's defaults."""
    fix_hp: tuple[Change, ...]
    """What differs from the case or, without a case, from the document's defaults, as far as the document says."""
    fix_hp_text: str | None
    """The cell as printed, without Markdown."""
    claims: tuple[Claim, ...]
    """What the row says of its global batch."""
    options: Mapping[str, str]
    """Everything that the row sets by name, as printed."""
    configuration_name: ConfigurationName | None
    """The configuration that the row names."""
    hardware: PublishedHardware
    """What it was run on."""
    parallelism: PublishedLayout
    """How ranks shared the model."""
    parallel_text: str | None
    """The cell as printed, without Markdown."""
    batch: PublishedBatch
    """Batch settings."""
    precision: Precision | None
    """None where the text does not fix one, as `amp` does not."""
    precision_text: str | None
    """As printed."""
    dataset: str | None
    """Name that cases know it by; None where they do not."""
    dataset_text: str | None
    """As printed."""
    metrics: PublishedMetrics
    """The figures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """One published document, whole."""

    schema: str
    """Name and version of this document's schema."""
    provenance: Literal["imported"]
    """Taken from a published document; nothing was measured here."""
    title: str
    """Its first heading on configuration and results, else its first heading, as printed."""
    source: Source
    """The document as it was read."""
    vendor: str | None
    """The vendor whose name the environment's heading or accelerator gives; None where neither does."""
    headings: tuple[Note, ...]
    """All of them, also those of the sections."""
    sections: tuple[Section, ...]
    """Environment, strategies, batch defaults, general metrics."""
    defaults: PublishedBatch
    """Batch settings where a row says nothing else."""
    strategy: PublishedLayout
    """The same of the layout."""
    formula: Formula | None
    """How the document says that the global batch is computed; None where it does not say."""
    configuration_names: tuple[ConfigurationName, ...]
    """Configurations that the text names outside of rows."""
    datasets: tuple[Note, ...]
    """Each place where the document names the training data, by what it says there."""
    tables: tuple[Table, ...]
    """Cell by cell."""
    rows: tuple[PublishedRow, ...]
    """The results, in their order."""
    notes: tuple[Note, ...]
    """Remarks."""
    unread: tuple[Unread, ...]
    """What was not understood."""

    def entry(self, name: str, *kinds: SectionKind) -> Entry | None:
        """The first entry of that name, in sections of these kinds if any are given; None if there is none."""
        found = (
            entry for one in self.sections if not kinds or one.kind in kinds for entry in one.entries
            if entry.name == name
        )  # fmt: skip
        return next(found, None)

    def cells(self, row: PublishedRow) -> Mapping[str, str]:
        """The cells of a row by what their columns mean; columns of unknown meaning are left out."""
        table = self.tables[row.table]
        return {
            column.name: cell for column, cell in zip(table.columns, table.rows[row.row].cells, strict=False)
            if column.name is not None
        }  # fmt: skip
