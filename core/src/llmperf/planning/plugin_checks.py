"""Checks for framework plugins: their options, the features that a plan needs, the families that they build."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import fields
from difflib import get_close_matches

from llmperf.types.devices import Probe
from llmperf.types.models import Model
from llmperf.types.plan_checks import Problem
from llmperf.types.spec import RunSpec, Tuning

ATTENTION_FEATURES: Mapping[str, str] = {
    "flash": "flash_attention",
    "efficient": "efficient_attention",
    "cudnn": "cudnn_attention",
    "flex": "compiler",
}
"""The feature that devices must offer for a value of `tuning.attention`."""
COMPILER = "compiler"
"""Feature of devices for which the runtime's compiler makes kernels, as `torch.compile` does with Triton."""
AUTO = "auto"
"""Value of `tuning.fused_ops` for all fused operations that the framework offers for the devices."""

OptionCheck = Callable[[object], str | None]
"""Takes the value of an option; returns what was expected if the value is wrong, None if it is valid."""


def setting_problem(plugin: str, where: str, message: str) -> Problem:
    """The problem of a plugin with a setting; its code is `PLUGIN.SETTING`, such as `zero.offload`."""
    return Problem(code=f"{plugin}.{where.rpartition('.')[2]}", where=where, message=message)


def option_problems(
    framework: str,
    options: Mapping[str, object],
    known: Mapping[str, Sequence[object] | OptionCheck],
    *,
    title: str | None = None,
) -> Iterator[Problem]:
    """A problem for each of a plan's `framework.*` options that the framework does not have, or whose value is wrong.

    `known` maps each option to its valid values or to a check of the value. `title` names the framework in messages,
    if not by its name. True and false do not count as numbers.
    """
    for name, value in options.items():
        where, code = f"framework.{name}", f"{framework}.option"
        if name not in known:
            message = f"{title or framework} has no such option; {_nearest(name, known)}"
            yield Problem(code=code, where=where, message=message)
        elif (expected := _expected(known[name], value)) is not None:
            yield Problem(code=code, where=where, message=f"expected {expected}, found {value!r}")


def option_choices(known: Mapping[str, Sequence[object] | OptionCheck]) -> dict[str, tuple[object, ...]]:
    """`Facts.framework_options` of the options that `option_problems` takes: no values where a function checks them."""
    return {name: () if callable(valid) else tuple(valid) for name, valid in known.items()}


def _expected(valid: Sequence[object] | OptionCheck, value: object) -> str | None:
    if callable(valid):
        return valid(value)
    if any(value == choice and isinstance(value, bool) == isinstance(choice, bool) for choice in valid):
        return None
    if valid and all(isinstance(choice, bool) for choice in valid):
        return "true or false"
    return f"one of {', '.join(repr(choice) for choice in valid)}"


def _nearest(name: str, known: Collection[str]) -> str:
    near = get_close_matches(name, known, n=1, cutoff=0.5)
    if not near and (elsewhere := get_close_matches(name, [one.name for one in fields(Tuning)], n=1, cutoff=0.8)):
        return f"did you mean {f'tuning.{elsewhere[0]}'!r}?"
    if not known:
        return "it has none"
    return f"did you mean {near[0]!r}?" if near else f"it has: {', '.join(sorted(known))}"


def whole_number(least: int) -> OptionCheck:
    """A check for an option that is a whole number of at least `least`."""

    def check(value: object) -> str | None:
        valid = isinstance(value, int) and not isinstance(value, bool) and value >= least
        return None if valid else f"a whole number of at least {least}"

    return check


def needed_features(spec: RunSpec, probe: Probe) -> tuple[str, ...]:
    """The features that devices must offer beyond the precision, for `Needs.features`."""
    if probe.on_cpu:
        return ()
    tuning = spec.tuning
    named = (ATTENTION_FEATURES.get(tuning.attention), COMPILER if tuning.compile else None)
    return tuple(dict.fromkeys(feature for feature in named if feature is not None))


def expanded_fused_ops(spec: RunSpec, offered: Sequence[str]) -> tuple[str, ...]:
    """`tuning.fused_ops`, each once, with `auto` replaced by all that the framework offers for the devices."""
    listed = (offered if name == AUTO else (name,) for name in spec.tuning.fused_ops)
    return tuple(dict.fromkeys(name for names in listed for name in names))


def fused_op_problems(framework: str, spec: RunSpec, offered: Sequence[str]) -> Iterator[Problem]:
    """Names in `tuning.fused_ops` that the framework does not offer for the devices."""
    for name in spec.tuning.fused_ops:
        if name not in (*offered, AUTO):
            message = f"{framework} offers {', '.join(offered) or 'none'}, found {name!r}"
            nearest = get_close_matches(name, offered, n=1) or [AUTO]
            message = f"{message}; nearest: --set 'fused_ops=[\"{nearest[0]}\"]'"
            yield setting_problem(framework, "tuning.fused_ops", message)


def family_problem(framework: str, spec: RunSpec, families: Sequence[str], hint: str = "") -> Problem:
    """The problem of a framework that does not build the model's family; `hint` says what does."""
    message = f"{framework} builds models of family {', '.join(families)}, found {spec.model.family!r}"
    end = f"; {hint}" if hint else ""
    return setting_problem(framework, "model.family", f"{message} ({spec.model.name}){end}")


ARCHITECTURE = (
    *("head_width", "qk_norm", "attention_bias", "sinks", "window", "latent", "query_scale_width", "activation"),
    *("feed_forward_bias", "mixture", "norms_per_block", "norm_offset", "rope_scaling", "rotated_share"),
    *("rotated_pairs", "embedding_scale", "multi_token_layers", "counted"),
)
"""Facts of `Model` whose default is as in Llama, and which few frameworks build otherwise."""


def architecture_problems(framework: str, spec: RunSpec, supported: Collection[str] = ()) -> Iterator[Problem]:
    """Problems for each fact of the model (by `Model`) that departs from Llama and is not in `supported`."""
    defaults = {field.name: field.default for field in fields(Model)}
    for name in ARCHITECTURE:
        value = getattr(spec.model, name)
        if name in supported or value == defaults[name]:
            continue
        expected = _fact_text(defaults[name])
        message = f"{framework} builds only models with {name} {expected}, found {_fact_text(value)}"
        yield Problem(code=f"{framework}.architecture", where=f"model.{name}", message=f"{message} ({spec.model.name})")


def _fact_text(value: object) -> str:
    if value is None or value == ():
        return "none"
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, (str, int, float)) else "a table"
