"""Published results as sheets: figures in the digits that were printed, beside their exact values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from llmperf.reporting import PERCENT, THROUGHPUT, UNKNOWN, model_text, printable, rounded
from llmperf.types import Finding, Row, Section, Sheet, Source, Text, Verdict

from llmperf_published.reading.machine import in_place_of_a_device
from llmperf_published.reading.markdown import withheld
from llmperf_published.reading.settings import truth
from llmperf_published.reading.vocabulary import meaning
from llmperf_published.reporting.markdown import published_markdown
from llmperf_published.rules.machine import machine_of
from llmperf_published.rules.mfu import agreements, computed_mfu, per_device
from llmperf_published.rules.vendors import vendor_of
from llmperf_published.rules.verdicts import closing, judged, peak_confidence
from llmperf_published.types.document import Published, PublishedRow
from llmperf_published.types.row import Figure, PublishedLayout, PublishedMemory

IN_LAYOUT = ("tensor_parallel", "pipeline_parallel", "data_parallel", "sharding_stage", "sharding_degree")
"""Settings that the text of the layout has."""


def published_sheets(document: Published, path: Path, findings: Sequence[Finding]) -> Iterator[Sheet]:
    """One sheet for each published row, with its own findings and those of the whole document."""

    def verdict_of(sheet: Sheet) -> Verdict:
        line, outcome, why = (part.value for part in sheet.cell("status").parts)
        reasons = why.values if isinstance(why, Text) else (why,)
        return Verdict(line=int(str(line)), outcome=outcome, why=reasons)  # type: ignore[arg-type]

    source = Source(
        kind="published",
        path=path,
        document=document,
        markdown=lambda language: published_markdown(document, language),
        closing=lambda sheets: closing([verdict_of(sheet) for sheet in sheets]),
    )
    for index, (row, verdict) in enumerate(zip(document.rows, judged(document)[1], strict=True)):
        own = tuple(
            finding for finding in findings
            if not finding.path.startswith("/rows/") or finding.path.startswith(f"/rows/{index}/")
        )  # fmt: skip
        errors, warnings = (sum(one.severity == kind for one in own) for kind in ("error", "warning"))
        if verdict.outcome == "wrong":  # it has its errors even if so many are alike that the findings do not list them
            errors = max(errors, len(verdict.why))
        batch = {"seq_len": row.batch.seq_len, "global_batch": row.batch.global_batch}
        yield Sheet(
            name=f"{document.source.name}:{row.line}",
            title=f"{model(row)}: {device(document, row)}",
            source=source,
            overview=(
                *_overview(document, row, verdict, path.parent.name, errors),
                Row(key="warnings", label="validation warnings", value=warnings),
                Row(key="peak_confidence", label="confidence of the peak", value=peak_confidence(verdict)),
                Row(key="vendor", label="vendor", value=vendor_of(document, row)),
                *_computed_mfu(document, row),
            ),
            sections=partial(_sections, document, row, verdict),
            findings=own,
            contract=_known({"model": row.model or row.model_text, **_named_settings(row), **batch}),
            setting=_setting(document, row),
            measured=False,
        )


def _overview(published: Published, row: PublishedRow, verdict: Verdict, document: str, errors: int) -> Iterator[Row]:
    metrics = row.metrics
    yield Row(key="model", label="model", value=row.model or row.model_text, text=model(row))
    variant = row.variant and row.case is not None
    case = Row(key="case", label="case", value=row.case)
    text = Text("{} (variant)", row.case) if variant else row.case or UNKNOWN
    parts = case, Row(key="variant", label="variant", value=row.variant)
    yield replace(case, text=text, own_words=variant, parts=parts)
    named = Row(key="device_model", label="device", value=device_name(published, row))
    yield Row(key="device", label="device", value=None, text=device(published, row), parts=(named,))
    yield Row(key="layout", label="layout", value=row.framework, parts=tuple(_layout_rows(row)),
              text=Text.joined(" ", filter(None, (row.framework, layout(row.parallelism)))) or UNKNOWN,
              own_words=True)  # fmt: skip
    yield speed_row(row)
    yield _mfu_row(published, row)
    yield _figure_row("final_loss", "final loss", metrics.loss)
    yield _memory_row(metrics.memory)
    yield Row(key="fix_hp", label="fix_hp", value=row.fix_hp_text,
              text=UNKNOWN if row.fix_hp_text is None else row.fix_hp_text or "/")  # fmt: skip
    own = Text(", peak of the importer") if peak_confidence(verdict) == "own" else ""
    text = Text("imported: {}{}", Text(verdict.outcome), own)
    yield Row(key="status", label="status", value=verdict.outcome, text=text, own_words=True, parts=(
        Row(key="line", label="line", value=verdict.line),
        Row(key="verdict", label="verdict", value=verdict.outcome, own_words=True),
        Row(key="verdict_why", label="reasons", value=Text.joined("; ", verdict.why))))  # fmt: skip
    yield Row(key="run_id", label="run", value=Text("{} line {}", document, row.line), own_words=True)
    yield Row(key="provenance", label="provenance", value="imported", own_words=True)
    yield Row(key="errors", label="validation errors", value=errors)


def speed_row(row: PublishedRow, whole: bool = False) -> Row:
    """The throughput of a device as printed, or computed where that of all devices is printed."""
    key, label, printed = "tokens_per_second_per_device", "token/p/s", row.metrics.tokens_per_second_per_device
    each = per_device(row)
    if each is None or each is printed:
        return _figure_row(key, label, printed, whole)
    return Row(key=key, label=label, value=each.value, rounding=THROUGHPUT)


def _mfu_row(document: Published, row: PublishedRow, whole: bool = False) -> Row:
    """The MFU as printed; computed, with the printed one, where that is right by other conventions alone."""
    printed = _figure_row("mfu_nominal", "MFU (nominal)", row.metrics.mfu, whole)
    by = dict.fromkeys(name for name, _, _ in agreements(document, row))
    share = computed_mfu(document, row) if by and "nominal" not in by else None
    if share is None:
        return printed
    text = Text("{} (printed: {}, {})", rounded(share, PERCENT), printed.text, next(iter(by)))
    return replace(printed, value=share, text=text, own_words=True)


def _computed_mfu(document: Published, row: PublishedRow) -> Iterator[Row]:
    """The MFU that a document without one leaves its reader to compute; unknown where the peak or model is."""
    share = computed_mfu(document, row)
    if share is not None:
        yield Row(key="mfu_computed", label="MFU (nominal), computed", value=share, rounding=PERCENT)


def _figure_row(key: str, label: str, figure: Figure | None, whole: bool = False) -> Row:
    """A figure in its printed digits; with `whole`, the cell as printed, with its formula and unit."""
    text = None if figure is None else (figure.text if whole else digits(figure)) or UNKNOWN
    return Row(key=key, label=label, value=value(figure), text=text)


def _memory_row(memory: PublishedMemory | None) -> Row:
    text = None if memory is None else memory.text or UNKNOWN
    known = [part.each.value for part in memory.used if part.each.value is not None] if memory else []
    most = max(known) * 2**30 if memory and memory.unit == "GiB" and known else None  # of any device
    used = Row(key="device_memory_used_bytes", label="memory of a device, GiB", value=most, text=text)
    return Row(key="device_memory", label="mem, GiB", value=used.value, text=text, parts=(
        used, Row(key="memory", label="memory", value=memory.text if memory else None)))  # fmt: skip


def _layout_rows(row: PublishedRow) -> Iterator[Row]:
    """Framework, devices and degrees; degrees that hold only if others are 1 are left out."""
    values: dict[str, str | int | None] = {"framework": row.framework}
    values |= {"nodes": row.hardware.nodes, "devices_per_node": row.hardware.devices_per_node}
    names = ("tensor_parallel", "pipeline_parallel", "sharding_stage", "sharding_degree")
    values |= {name: getattr(row.parallelism, name) for name in names}
    of_batch = ("data_parallel", "micro_batch", "gradient_accumulation", "global_batch", "seq_len")
    guessed = guessed_settings(row)
    values |= {name: None if name in guessed else getattr(row.batch, name) for name in of_batch}
    yield from (Row(key=name, label=name.replace("_", " "), value=known) for name, known in values.items())


def _sections(document: Published, row: PublishedRow, verdict: Verdict) -> Iterator[Section]:
    metrics = row.metrics
    cells = {cell.key: cell for cell in _overview(document, row, verdict, document.source.name, 0)}
    for shown in (speed_row(row, whole=True), _mfu_row(document, row, whole=True)):
        cells[shown.key] = shown
    cells["final_loss"] = _figure_row("final_loss", "loss", metrics.loss, whole=True)
    for computed in _computed_mfu(document, row) if metrics.mfu is None else ():
        cells["mfu_nominal"] = computed
    why = Text("imported: {} ({})", Text(verdict.outcome), Text.joined("; ", verdict.why))
    cells["status"] = Row(key="status", label="status", value=verdict.outcome, text=why, own_words=True)
    more = {"tokens_per_second": ("tokens/s, all devices", metrics.tokens_per_second), "hfu": ("HFU", metrics.hfu)}
    rows = [_figure_row(key, label, figure, True) for key, (label, figure) in more.items() if figure is not None]
    rows += [Row(key=key, label=key, value=text) for key, text in _named_settings(row).items() if text is not None]
    rows += [_figure_row(f"evaluation_{name}", name, figure, True) for name, figure in metrics.evaluation.items()]
    known = [cell for cell in cells.values() if cell.key not in ("provenance", "errors")]
    yield Section(key="performance", title="Performance", rows=(*known, *rows), card=True)
    changed = ((one.path, f"{_text(one.case_value)} -> {_text(one.value)}") for one in row.fix_hp)
    if changes := tuple(Row(key="", label=path, value=text) for path, text in changed):
        yield Section(key="fix_hp", title="Changes from the case (fix_hp)", rows=changes)
    entries = tuple(Row(key="", label=e.label, value=e.text) for part in document.sections for e in part.entries)
    yield Section(key="environment", title="Environment", rows=entries)
    remarks = [(one.line, one.text) for one in document.notes] + [(one.line, one.text) for one in document.unread]
    notes = tuple(Row(key="", label=f"{document.source.name}:{line}", value=text) for line, text in sorted(remarks))
    if notes:
        yield Section(key="notes", title="Notes", rows=notes)


def _text(value: object) -> str:
    return UNKNOWN if value is None else str(value).lower() if isinstance(value, bool) else str(value) or "none"


def _named_settings(row: PublishedRow) -> Mapping[str, str | None]:
    return {"dataset": row.dataset or row.dataset_text, "precision": row.precision or row.precision_text}


def _setting(document: Published, row: PublishedRow) -> dict[str, str]:
    """The setting as far as the document says it; its figures are those of whole devices."""
    where = row.hardware
    grid = f"{where.nodes} x {where.devices_per_node}" if where.nodes and where.devices_per_node else None
    return _known({
        "device": device_name(document, row), "nodes x devices": grid,
        "share of a device per rank": rounded(1.0, PERCENT), "framework": row.framework,
        "layout": layout(row.parallelism) or None, **stated_tuning(row),
    })  # fmt: skip


def _known(parts: Mapping[str, object]) -> dict[str, str]:
    known = {name: part for name, part in parts.items() if part is not None}
    return {name: part if isinstance(part, Text) else printable(str(part)) for name, part in known.items()}


def model(row: PublishedRow) -> str:
    """Name of the model, or as printed if the library does not have it; says whether only adapters are trained."""
    from llmperf import library

    adapters = False
    if row.case is not None and row.case in library().paths("cases"):
        adapters = library().case(row.case).contract.lora is not None
    return model_text(row.model or row.model_text or UNKNOWN, adapters)


def device(published: Published, row: PublishedRow) -> str:
    """`1x8 NVIDIA_A100-SXM4-40GB`, as far as it is known."""
    where = row.hardware
    grid = f"{where.nodes}x{where.devices_per_node} " if where.nodes and where.devices_per_node else ""
    return f"{grid}{device_name(published, row) or UNKNOWN}"


def device_name(published: Published, row: PublishedRow) -> str | None:
    """The device as its vendor calls it, if it can be no other; otherwise as printed. None if the row does not say."""
    if (machine := machine_of(published, row)) is not None and len(machine.devices) == 1:
        return machine.devices[0].model
    where = row.hardware
    printed = in_place_of_a_device(where.configuration or "")
    return where.device_model or where.device or (None if withheld(printed) else printed)


def layout(parallelism: PublishedLayout) -> str:
    """`TP4 x PP1 x DP2, sharding stage 1`, as far as it is known."""
    named = {"TP": parallelism.tensor_parallel, "PP": parallelism.pipeline_parallel, "DP": parallelism.data_parallel}
    degrees = [f"{name}{degree}" for name, degree in {**named, **parallelism.other}.items() if degree is not None]
    stage = parallelism.sharding_stage
    sharded = [] if stage is None else [Text("sharding stage {}", stage)]
    return Text.joined(", ", [*[" x ".join(degrees)] * bool(degrees), *sharded])


def digits(figure: Figure) -> str:
    """The digits as printed; the whole cell if the digits alone would mean another number."""
    if figure.printed is None or figure.scale not in (1.0, 0.01):
        return figure.text
    return figure.printed if figure.scale == 1.0 else f"{figure.printed} %"


def value(figure: Figure | None) -> float | None:
    """The number of a figure; None if there is none or it is withheld."""
    return None if figure is None else figure.value


def stated_tuning(row: PublishedRow) -> dict[str, str]:
    """Settings by their names in `tuning`; those that the row does not say are absent."""
    known: dict[str, str] = {}
    for printed, text in row.options.items():
        name, switch = meaning(printed), truth(text)
        if name == "gradient_checkpointing" and switch is not None:
            known[name] = _text(switch)
        elif name == "attention" and (switch or "flash" in text.lower()):
            known[name] = "flash"
        elif name == "fused_rms_norm" and switch is not None:
            known["fused_ops"] = "rms_norm" if switch else "none"
    for change in row.fix_hp:
        group, _, name = change.path.partition(".")
        if group == "tuning" and name not in IN_LAYOUT:
            known[name] = _text(change.value)
    guessed = guessed_settings(row)
    for name in ("micro_batch", "gradient_accumulation"):
        value = getattr(row.batch, name)
        if value is not None and name not in guessed:
            known[name] = str(value)
    return known


def guessed_settings(row: PublishedRow) -> tuple[str, ...]:
    """Names of batch settings that hold only if the degrees that the document does not print are 1."""
    origins = row.batch.origins
    if row.parallelism.tensor_parallel and row.parallelism.pipeline_parallel:
        return ()
    if not origins.get("data_parallel", "").startswith("nodes x devices"):
        return ()
    computed = origins.get("global_batch", "").endswith("x data parallel")
    return ("data_parallel", "global_batch") if computed else ("data_parallel",)
