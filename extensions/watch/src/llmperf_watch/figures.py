"""From facts and reported steps to figures, each with its source. Nothing is guessed: what is missing stays null."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import accumulate, groupby
from statistics import fmean, median
from typing import NamedTuple, cast

from llmperf.accounting import utilisation
from llmperf.errors import UserError
from llmperf.reporting import quantile
from llmperf.types import FlopCount, PeakFlops
from llmperf.types.devices import Dtype
from llmperf.types.flop_counts import Mfu

from llmperf_watch.profiles import OF_STEP
from llmperf_watch.types import Clock, Figures, Spread, Stall, Stated, Steps

WARMUP_SHARE, WARMUP_LEAST, WARMUP_MOST = 0.1, 2, 50
WARMUP_RULE = (
    f"left out as warm-up, after each start: {WARMUP_SHARE:.0%} of the steps, at least {WARMUP_LEAST}"
    f" and at most {WARMUP_MOST}"
)
STALL_FACTOR = 5
"""A pause is a stall if it is longer than so many times the median."""
MAX_STALLS = 20
AS_PRINTED = "as the program printed it"
OF_WHOLE_RUN = "printed by the program, over the whole run, start-up included"
LARGEST_BOUND = 0.01
"""Times in whole seconds are used where they are exact to this share of the time between them."""
PRINTED = tuple(name for name in OF_STEP if name not in ("step", "loss", "tokens", "time"))


def attempts_of(numbers: Sequence[float | None]) -> list[int]:
    """For each reported step how many times the program had begun again: the step number went back."""
    back = (
        int(here is not None and before is not None and here < before)
        for before, here in zip([None, *numbers], numbers, strict=False)
    )
    return list(accumulate(back))


def figures_of(steps: Steps, facts: Mapping[str, Stated], clock: Clock) -> Figures:
    """Everything that follows from facts and steps."""
    count = len(steps.step)
    attempts = attempts_of(steps.step)
    kept = list(_after_warmup(steps, attempts, facts))
    timing = _timing(steps, kept, attempts, clock, facts)
    gaps, source = timing.gaps, timing.source
    kept = list(range(count)) if source == OF_WHOLE_RUN else kept
    lengths = [length for _, _, length in gaps]
    seconds = _spread([each for _, each, _ in gaps], source, [length / each for _, each, length in gaps], timing.bound)
    rates = _rates(steps, timing, facts)
    whole = None if rates is None else _spread(rates[0], f"{rates[1]}, {source}", lengths, rates[2])
    printed = {
        name: spread
        for name in PRINTED
        if (column := getattr(steps, name))
        and (spread := _spread([column[at] for at in kept if column[at] is not None], "printed by the program"))
    }
    devices, each = _number(facts, "devices"), None
    if whole is not None and devices:
        each = _divided(whole, devices, f"{whole.source}, / {devices:g} devices")
    elif (said := printed.get("tokens_per_second_per_device")) is not None:
        each = _divided(said, 1, AS_PRINTED)
        if devices and whole is None:
            whole = _divided(said, 1 / devices, f"{AS_PRINTED} x {devices:g} devices")
    elif whole is None and (said := printed.get("tokens_per_second")) is not None:
        whole = _divided(said, 1, AS_PRINTED)
        each = _divided(said, devices, f"{AS_PRINTED} / {devices:g} devices") if devices else None

    losses = [loss for loss in steps.loss if loss is not None]
    mfu, no_mfu = _mfu(each, facts)
    typical = median([every for _, every, _ in gaps]) if gaps else 0.0
    stalls = [Stall(step=steps.step[place], seconds=length) for place, every, length in gaps
              if every > STALL_FACTOR * typical]  # fmt: skip
    return Figures(
        reported=count,
        attempts=attempts[-1] + 1 if attempts else 1,
        left_out=count - len(kept),
        step_seconds=seconds,
        tokens_per_second=whole,
        tokens_per_second_per_device=each,
        printed=printed,
        mfu=mfu,
        no_mfu=no_mfu,
        first_loss=losses[0] if losses else None,
        last_loss=losses[-1] if losses else None,
        restarts=tuple(
            number for place, number in enumerate(steps.step)
            if place and attempts[place] > attempts[place - 1] and number is not None
        ),
        stalls=tuple(sorted(stalls, key=lambda stall: -stall.seconds)[:MAX_STALLS]),
    )  # fmt: skip


def _after_warmup(steps: Steps, attempts: Sequence[int], facts: Mapping[str, Stated]) -> Iterator[int]:
    """Places of the lines after warm-up, which is counted in steps, whichever of them have a line."""
    each = _number(facts, "steps_per_line") or 1.0
    for _, group in groupby(range(len(attempts)), attempts.__getitem__):
        places = list(group)
        known = [number for place in places if (number := steps.step[place]) is not None]
        numbers = known if len(known) == len(places) else [each * line for line in range(len(places))]
        warmup = min(WARMUP_MOST, max(WARMUP_LEAST, int((numbers[-1] - numbers[0] + 1) * WARMUP_SHARE)))
        yield from (place for place, number in zip(places, numbers, strict=True) if number - numbers[0] >= warmup)


def _gaps(
    steps: Steps, kept: Sequence[int], attempts: Sequence[int], clock: Clock, facts: Mapping[str, Stated]
) -> list[tuple[int, float, float]]:
    """For each kept step its place, the seconds of one step, and the seconds since the line before, by a clock.

    Lines that were read at one moment count as the last of them: their steps were done before it.
    """
    stated, at = _number(facts, "steps_per_line"), steps.at if clock == "llmperf" else steps.time
    gaps, after, before = [], set(kept), -1
    for place in range(len(attempts)) if at else ():
        last = place + 1 == len(attempts) or attempts[place + 1] != attempts[place]
        if not last and at[place + 1] == at[place]:
            continue
        if before >= 0 and attempts[before] == attempts[place] and place in after:
            here, there, now, then = at[place], at[before], steps.step[place], steps.step[before]
            between = (place - before) * (stated or 0) if now is None or then is None else now - then
            if here is not None and there is not None and between and here > there:
                gaps.append((place, (here - there) / between, here - there))
        before = place
    return gaps


class _Timing(NamedTuple):
    """The time of the steps: place of a line, seconds of one step, and seconds since the line before."""

    gaps: Sequence[tuple[int, float, float]]
    source: str
    bound: float | None = None
    """Largest error of the sum, as a share of it, where printed times are coarse."""


def _timing(
    steps: Steps, kept: Sequence[int], attempts: Sequence[int], clock: Clock, facts: Mapping[str, Stated]
) -> _Timing:
    """The best time that there is: our clock, printed times of lines, printed times of steps, that of the whole run."""
    gaps = _gaps(steps, kept, attempts, clock, facts)
    if clock == "llmperf":
        return _Timing(gaps, "by llmperf's clock")
    source, resolution = "by the times that the program printed with its lines", _number(facts, "time_resolution")
    if gaps and not resolution:
        return _Timing(gaps, source)
    if steps.step_seconds:  # which leave pauses out
        printed = [(place, value, value) for place in kept if (value := steps.step_seconds[place])]
        return _Timing(printed, "step time as the program printed it")
    if gaps and resolution:
        bound = resolution * len({attempts[place] for place, *_ in gaps}) / sum(length for *_, length in gaps)
        if bound < LARGEST_BOUND:
            return _Timing(gaps, f"{source}, in whole seconds (+-{bound:.1%})", bound)
    run, rate = _number(facts, "run_seconds"), _number(facts, "run_steps_per_second")
    last = steps.step[-1] if attempts and not attempts[-1] else None
    if run and last:
        return _Timing([(len(attempts) - 1, run / last, run)], OF_WHOLE_RUN, printed_rounding(run) / run)
    if rate and not any(attempts):
        return _Timing([(len(attempts) - 1, 1 / rate, 1 / rate)], OF_WHOLE_RUN, printed_rounding(rate) / rate)
    return _Timing([], source)


def printed_rounding(value: float) -> float:
    """Half a unit of the last digit of a printed number; zeros at its end do not count as digits."""
    return 0.5 * 10.0 ** int(Decimal(repr(value)).normalize().as_tuple().exponent)


def _rates(steps: Steps, timing: _Timing, facts: Mapping[str, Stated]) -> tuple[list[float], str, float | None] | None:
    """Tokens/s of all devices after warm-up, how tokens are known, and the bound; None if they are not known."""
    seq_len, batch, gaps = _number(facts, "seq_len"), _number(facts, "global_batch"), timing.gaps
    whole_run = timing.source == OF_WHOLE_RUN
    if whole_run and (run := _number(facts, "run_seconds")) and (tokens := _number(facts, "run_tokens")):
        return [tokens / run], "tokens as printed", timing.bound
    if gaps and any(steps.tokens) and not whole_run:
        # a line without tokens has those of the next line with them, which is a mean of the steps between two lines
        known: list[float] = []
        for tokens in reversed(steps.tokens):
            known.append(tokens or (known[-1] if known else 0.0))
        last = next(tokens for tokens in known if tokens)
        known = [tokens or last for tokens in reversed(known)]
        return [known[place] / each for place, each, _ in gaps], "tokens as printed", timing.bound
    if seq_len and batch:
        sources = facts["global_batch"].source, facts["seq_len"].source
        where = f"{batch:g} sequences ({sources[0]}) of {seq_len:g} tokens ({sources[1]})"
        return [seq_len * batch / each for _, each, _ in gaps], where, timing.bound
    if whole_run and seq_len and (samples := _number(facts, "run_samples_per_second")):
        where = f"{samples:g} sequences/s of {seq_len:g} tokens ({facts['seq_len'].source})"
        return [seq_len * samples], where, printed_rounding(samples) / samples
    return None


def _spread(
    values: Sequence[float | None], source: str, weights: Sequence[float] = (), bound: float | None = None
) -> Spread | None:
    """Figures of values; their mean has the weights, such as seconds of rates: work of the whole window / its time.

    With a bound of its error, which the single values do not have, the mean is the one value.
    """
    known = sorted(value for value in values if value is not None)
    if not known:
        return None
    mean = fmean(known)
    if weights:
        mean = sum((value or 0.0) * weight for value, weight in zip(values, weights, strict=True)) / sum(weights)
    low, middle, high = (quantile(known, part) for part in (0.05, 0.5, 0.95))
    if bound is not None:
        return Spread(median=mean, p5=mean * (1 - bound), p95=mean * (1 + bound), mean=mean, count=1, source=source)
    return Spread(median=middle, p5=low, p95=high, mean=mean, count=len(known), source=source)


def _divided(spread: Spread, by: float, source: str) -> Spread:
    figures = {name: getattr(spread, name) / by for name in ("median", "p5", "p95", "mean")}
    return Spread(count=spread.count, source=source, **figures)


def _number(facts: Mapping[str, Stated], name: str) -> float | None:
    fact = facts.get(name)
    return None if fact is None or isinstance(fact.value, str) else fact.value


def _mfu(each: Spread | None, facts: Mapping[str, Stated]) -> tuple[tuple[Mfu, ...], str | None]:
    missing = [name for name in ("model", "seq_len", "device_model", "precision") if name not in facts]
    if each is None:
        missing.insert(0, "tokens/s of a device")
    if missing or each is None:
        return (), f"not stated: {', '.join(missing)}"
    flops, peak = flop_count(facts), peak_of(facts)
    if isinstance(peak, str):
        return (), peak
    if isinstance(flops, str):
        return (), flops
    return utilisation(flops, each.mean, peak, 1.0), None


def flop_count(facts: Mapping[str, Stated]) -> FlopCount | str:
    """FLOPs of a token of the stated model, or why they are not known."""
    from llmperf.validation import flops_of, known_model

    name, seq_len = str(facts["model"].value), _number(facts, "seq_len")
    model = known_model(name)
    if model is None:
        return f"model {name} is not in `llmperf models`"
    try:
        count = flops_of(model, None, seq_len=int(seq_len or 0), gradient_checkpointing=False)
    except UserError as error:
        return str(error)
    return count or f"model {name} cannot be counted"


def peak_of(facts: Mapping[str, Stated]) -> PeakFlops | str:
    """The published peak of the stated device, or why there is none."""
    from llmperf.validation import installed_vendors, vendor_catalogue

    device, precision = str(facts["device_model"].value), cast("Dtype", facts["precision"].value)
    for vendor in sorted(installed_vendors()):
        catalogue = vendor_catalogue(vendor)
        known = catalogue.exact(device) if catalogue else None
        if catalogue is not None and known is not None:
            return catalogue.peak(known, precision) or f"{vendor} publishes no peak of {known.model} in {precision}"
    return f"no installed vendor publishes a peak of {device}"
