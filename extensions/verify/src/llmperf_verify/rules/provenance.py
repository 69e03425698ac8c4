"""Where a plan and a result come from: plugins and their sources, what was loaded beside them, model, data and peak."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from datetime import date
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import llmperf
from llmperf import builtins, challenge_seed, convert, encode_pretty, read_toml
from llmperf.errors import UserError
from llmperf.types import Model, PluginInfo, Result, Text, Violation
from llmperf.types.devices import normalised
from llmperf.validation import (
    CORE,
    SYNTHETIC,
    distribution,
    installed,
    known_model,
    known_sections,
    misfits,
    pointer,
    rule,
    shown,
    source_hash,
    spec_of,
    synthetic_fingerprint,
    vendor_catalogue,
    version,
)

if TYPE_CHECKING:
    from llmperf.types import Plan

DESCRIPTIVE = ("title", "source")
"""Fields of a model that fix neither parameters nor FLOPs."""
_PLUGIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


@rule("LP652", "error", "The core, the vendor and the framework of a run are recorded", "result", "plan")
def plugins_are_recorded(document: Result | Plan) -> Iterator[Violation]:
    if isinstance(document, Result):
        vendor, framework = document.hardware.vendor, document.tuning.framework
    else:
        vendor, framework = document.vendor, document.spec.tuning.framework
    recorded = {(plugin.role, plugin.name) for plugin in document.plugins}
    for role, name in (("core", "core"), ("vendor", vendor), ("framework", framework)):
        if (role, name) not in recorded:
            same = [plugin.name for plugin in document.plugins if plugin.role == role]
            found = ", ".join(map(shown, same[:5])) or Text("none")
            yield "/plugins", Text("expected {} {}, found {} in this role", role, shown(name), found)
    for index, plugin in enumerate(document.plugins):
        if not _PLUGIN_NAME.fullmatch(plugin.name):
            yield f"/plugins/{index}/name", Text("expected the name of a plugin, found {}", shown(plugin.name))


LOADING = ("LD_PRELOAD", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "PYTHONPATH", "PYTHONHOME")
"""Variables that put code into every process which inherits them."""
WHY = Text("the run's clocks and figures may not be those of the named packages")


@rule("LP655", "warning", "Nothing was loaded into the ranks from outside")
def nothing_loaded_from_outside(result: Result) -> Iterator[Violation]:
    software = result.software
    for name in LOADING:
        if text := software.environment.get(name):
            yield pointer(("software", "environment", name)), _variable(name, text)
    for name, file in software.startup_modules.items():
        yield pointer(("software", "startup_modules", name)), _module(file)
    for index, node in enumerate(result.nodes):
        for field, value in node.differs.items():
            kind, _, name = field.partition(".")
            where = pointer(("nodes", index, "differs", field))
            if value and kind == "environment" and name in LOADING:
                yield where, _variable(name, str(value))
            elif value and kind == "startup_modules":
                yield where, _module(str(value))


def _variable(name: str, text: str) -> str:
    return Text("expected {} to be unset, found {}: {}", name, shown(text), WHY)


def _module(file: str) -> str:
    return Text("expected no module that the interpreter imports by itself, found {}: {}", shown(file), WHY)


CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
"""All but tabs and ends of lines."""
ENCODED = re.compile(rb"\\u00[0-9]|\\[bf]")
"""The same in JSON, and little else."""
FREE = (("failure",), ("worker", "files"))
"""Output of programs, and files that a rank reads: they are what they are."""


@rule("LP668", "error", "Texts have no control characters", "result", "plan")
def no_control_characters(document: Result | Plan) -> Iterator[Violation]:
    """No text but the log of a failed run may control a terminal; only the first one is reported."""
    if ENCODED.search(encode_pretty(document)) is None:
        return
    for parts, text in _texts(builtins(document), ()):
        if CONTROL.search(text) is not None and not any(parts[: len(free)] == free for free in FREE):
            yield pointer(parts), Text("expected a text without control characters, found {}", shown(text))
            return


def _texts(value: Any, parts: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Every text of a document, also the keys of objects, with its place."""
    if isinstance(value, str):
        yield parts, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield (*parts, key[:200]), key
            yield from _texts(inner, (*parts, key[:200]))
    elif isinstance(value, (list, tuple)):
        for index, inner in enumerate(value):
            yield from _texts(inner, (*parts, index))


_ISO_DATE = re.compile(r"[0-9]{4}(-[0-9]{2}){0,2}")
_PLUGIN_CODE = re.compile(r"[A-Za-z0-9_-]{1,64}(\.[A-Za-z0-9_-]{1,64}){1,3}")


@rule("LP318", "error", "A peak is of the probed device and has a date", "result", "plan")
def peak_of_the_probed_device(document: Result | Plan) -> Iterator[Violation]:
    if isinstance(document, Result):
        for index, mfu in enumerate(document.mfu):
            if mfu.peak_date is not None:
                yield from _date(f"/mfu/{index}/peak_date", mfu.peak_date)
    elif document.peak is not None:
        yield from _date("/peak/date", document.peak.date)
        probed = document.probe.devices[0].model if document.probe.devices else None
        found = document.peak.device_model
        if probed is None or not _same_device(probed, found, document.vendor):
            yield "/peak/device_model", Text("expected {}, the probed device, found {}", shown(probed), shown(found))


def _same_device(probed: str, found: str, vendor: str) -> bool:
    """Check whether two names are of one device, by its aliases too."""
    if normalised(probed, vendor) == normalised(found, vendor):
        return True
    catalogue = vendor_catalogue(vendor)
    device = catalogue.exact(probed) if catalogue else None
    return catalogue is not None and device is not None and catalogue.exact(found) == device


def _date(path: str, found: str) -> Iterator[Violation]:
    try:
        if _ISO_DATE.fullmatch(found):
            date.fromisoformat(f"{found}-01-01"[:10])
            return
    except ValueError:  # a month or a day that does not exist
        pass
    yield path, Text("expected an ISO date such as 2026-01-15, found {}", shown(found))


@cache
def problem_codes() -> Mapping[str, str]:
    """The codes of the core with their meanings."""
    return read_toml(Path(llmperf.__file__).with_name("data") / "problems.toml")


@rule("LP650", "error", "Problems have the code of the core or of a plugin", "plan")
def known_problem_codes(plan: Plan) -> Iterator[Violation]:
    for path, problems in (("/problems", plan.problems), ("/worker/problems", plan.worker.problems)):
        for index, problem in enumerate(problems):
            if problem.code not in problem_codes() and not _PLUGIN_CODE.fullmatch(problem.code):
                from difflib import get_close_matches

                nearest = get_close_matches(problem.code[:80], problem_codes(), n=1, cutoff=0)[0]
                expected = Text("expected a code such as {} or PLUGIN.name", nearest)
                yield f"{path}/{index}/code", Text("{}, found {}", expected, shown(problem.code))


_HASH = re.compile(r"[0-9a-f]{64}")
FEWEST_DIGITS = 8
"""Different digits: of 64 that are drawn at random, fewer are once in 10^17 hashes."""


@rule("LP662", "error", "Hashes of plugins' sources are hashes", "result", "plan")
def hashes_are_hashes(document: Result | Plan) -> Iterator[Violation]:
    for path, plugin in _hashed(document):
        found = str(plugin.source_hash)
        if not _HASH.fullmatch(found) or len(set(found)) < FEWEST_DIGITS:
            message = "expected the SHA-256 of the source of {}, found {}"
            yield path, Text(message, shown(plugin.distribution), shown(found))


@rule("LP653", "warning", "The source of a plugin is that of its installed version", "result", "plan")
def source_is_installed(document: Result | Plan) -> Iterator[Violation]:
    for path, plugin in _hashed(document):
        expected = _hash_here(plugin.role, plugin.name, plugin.distribution, plugin.version)
        if expected is not None and plugin.source_hash != expected:
            because = Text("the source of {} {} as it is installed here", plugin.distribution, plugin.version)
            yield path, Text("expected {}... ({}), found {}...", expected[:12], because, str(plugin.source_hash)[:12])


def _hashed(document: Result | Plan) -> Iterator[tuple[str, PluginInfo]]:
    for index, plugin in enumerate(document.plugins):
        if plugin.source_hash is not None:
            yield f"/plugins/{index}/source_hash", plugin


@cache
def _hash_here(role: str, name: str, package: str, release: str) -> str | None:
    """The hash of a plugin's source here; None unless this distribution and version is installed from a package."""
    known = [CORE, *installed()]
    found = next((one for one in known if (one.role, one.name, one.distribution) == (role, name, package)), None)
    if found is None or (found.version or version(package)) != release or _editable(package):
        return None
    return source_hash(found.module)


def _editable(package: str) -> bool:
    """Check whether a distribution is a working copy, whose source may change while its version does not."""
    found = distribution(package)
    try:
        origin = json.loads((found and found.read_text("direct_url.json")) or "{}")
    except ValueError:
        return False
    return isinstance(origin, dict) and "dir_info" in origin


@rule("LP665", "error", "The seed of a challenged run is that of the nonce", "result", "plan")
def seed_of_the_challenge(document: Result | Plan) -> Iterator[Violation]:
    spec, path = spec_of(document)
    if (nonce := spec.challenge) is None:
        return
    if not re.fullmatch("[0-9a-f]{64}", nonce):
        yield f"{path}/challenge", Text("expected 64 hexadecimal digits, found {}", shown(nonce))
    elif (expected := challenge_seed(nonce)) != (found := spec.contract.seed):
        yield f"{path}/contract/seed", Text("expected {} (of the challenge), found {}", expected, found)


@rule("LP607", "error", "A known model has its published facts", "result", "plan")
def facts_are_published(document: Result | Plan) -> Iterator[Violation]:
    spec, path = spec_of(document)
    model = spec.model
    if (known := known_model(model.name)) is None:
        return
    for field in fields(Model):
        found, expected = getattr(model, field.name), getattr(known, field.name)
        if found != expected and field.name not in DESCRIPTIVE:
            both = shown(builtins(expected)), shown(builtins(found))
            yield f"{path}/model/{field.name}", Text("expected {} (model {}), found {}", both[0], known.name, both[1])


@rule("LP660", "error", "Synthetic data are those of their seed", "result", "plan")
def synthetic_data_of_the_seed(document: Result | Plan) -> Iterator[Violation]:
    owner, _ = spec_of(document)
    contract, found = owner.contract, document.data_fingerprint
    if found is None or contract.dataset != SYNTHETIC or contract.packing != "packed":
        return
    vocabulary = owner.model.vocab_size
    expected = synthetic_fingerprint(vocabulary, contract.seq_len, contract.seed)
    if found != expected:
        because = Text("seed {}, vocabulary of {}, sequences of {}", contract.seed, vocabulary, contract.seq_len)
        yield "/data_fingerprint", Text("expected {} ({}), found {}", expected, because, shown(found))


@rule("LP016", "error", "The figures of a section are those that its package defines")
def sections_fit(result: Result) -> Iterator[Violation]:
    known = known_sections().by_name
    for name, figures in result.sections.items():
        if name in known:
            try:
                convert(figures, known[name].section.figures, "figures")
            except UserError as error:
                package = shown(known[name].owner.distribution)
                found = Text("found others: {}", shown(str(error)))
                yield pointer(["sections", name]), Text("expected figures as {} defines them, {}", package, found)


@rule("LP610", "error", "The facts of a model fit together", "result", "plan")
def facts_fit_together(document: Result | Plan) -> Iterator[Violation]:
    spec, path = spec_of(document)
    for key, expected, found in misfits(spec.model):
        yield f"{path}/model/{key.replace('.', '/')}", Text("expected {}, found {}", expected, shown(found))
