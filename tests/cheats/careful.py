"""Forgeries in which plan, records and result agree: what a skilled cheater hands in."""

import json
import math
import random
from operator import itemgetter
from pathlib import Path

import llmperf
from llmperf.cases.library import library

from .records import scale

STEPS = 12
CURVES = llmperf.read_toml(Path(__file__).with_name("curves.toml"))


def _noise(seed, spread, count=STEPS):
    draw = random.Random(seed)
    return [draw.gauss(0, spread) for _ in range(count)]


def times_four_fifths(forgery):
    """Every duration and every stamp in every file is scaled: 1.25 times the speed."""
    forgery.scale_times(0.8)


def times_halved(forgery):
    """Every duration and every stamp in every file is scaled: twice the speed."""
    forgery.scale_times(0.5)


def fastest_step_everywhere(forgery):
    """Every step took as long as the fastest, with a jitter; stamps and windows follow."""
    fastest = min(step["step_seconds"] for step in forgery.steps(measured=True))
    jitter = [_noise(rank, 0.01 * fastest, STEPS + 1) for rank in range(2)]
    forgery.set_window(lambda rank, step: fastest + jitter[rank][step])


def losses_by_formula(forgery):
    """Nothing was trained: the losses are a power of the step."""
    forgery.set_losses([6.95 * step**-0.004 for step in range(1, STEPS + 1)])
    for rank, rows in enumerate(forgery.ranks):
        for row in rows:
            if row.get("kind") == "step":
                row["loss"] = 6.95 * row["step"] ** -0.004 + (0.01 if rank else -0.01)
    forgery.set_sequences([6.935, 6.945, 6.955, 6.965])


def losses_with_noise(forgery):
    """Nothing was trained: the losses are those of an untrained model, falling, with the noise of small batches."""
    noise = _noise(1, 0.03)
    forgery.set_losses([math.log(1024) + 0.026 - 0.004 * step + noise[step] for step in range(STEPS)])
    forgery.set_sequences([loss + more for loss, more in zip((6.94, 6.99, 6.96, 6.92), _noise(2, 0.03), strict=False)])


def losses_of_another_run(forgery):
    """Nothing was trained: the losses are copied from a published run of the same case with another seed."""
    forgery.set_losses(CURVES["SEED_1"])


def losses_invented_after_step_1(forgery):
    """Step 1 was trained, on any machine; the other losses are invented."""
    noise = _noise(3, 0.03)
    forgery.set_losses([math.log(1024) + 0.026 - 0.004 * step + noise[step] for step in range(STEPS)], first_too=False)


def batch_doubled(forgery):
    """Twice the global batch in the plan and in all records; half of its sequences were never seen."""
    forgery.replan("global_batch=8", "micro_batch=4")
    scale(forgery, "tokens", "measured_tokens", factor=2)
    first, second = forgery.sequences()[:2], forgery.sequences()[2:]
    invented = [loss + noise for loss, noise in zip((*first, *second), _noise(4, 0.02), strict=False)]
    forgery.set_sequences([*first, *invented[:2], *second, *invented[2:]])


def sequence_doubled(forgery):
    """Twice the sequence length in the plan and in all records; the second halves were never seen."""
    forgery.replan("seq_len=64")
    scale(forgery, "tokens", "measured_tokens", factor=2)


def half_batch_trained(forgery):
    """From step 2 on, each rank trained on half of its sequences."""
    forgery.set_losses(CURVES["HALF_BATCH"], first_too=False)


def second_rank_invented(forgery):
    """From step 2 on, one rank trained alone; the records of the other are invented, with noise in times and losses."""
    noise, slower = _noise(5, 0.02, STEPS + 1), _noise(6, 1e-4, STEPS + 1)
    first, second = forgery.ranks
    times = {row["step"]: row["step_seconds"] for row in first if row.get("kind") == "step"}
    for row in second:
        if row.get("kind") == "step" and row["step"] > 1:
            row["loss"] = next(one["loss"] for one in first if one.get("step") == row["step"]) + noise[row["step"]]
    forgery.set_window(lambda rank, step: times[step] + rank * slower[step])
    forgery.set_losses(CURVES["NOT_REDUCED"], first_too=False)


def updates_skipped(forgery):
    """Every third update was skipped."""
    forgery.set_losses(CURVES["EVERY_THIRD_UPDATE_SKIPPED"], first_too=False)


def data_repeated(forgery):
    """The sequences of step 1 were trained in every step, with no loading of data."""
    forgery.set_losses(CURVES["REPEATED_DATA"], first_too=False)


def fewer_layers_trained(forgery):
    """The model that was trained has three of the four layers."""
    forgery.set_sequences(forgery.forward(model={"layers": 3}))


def own_model_with_more_work(forgery):
    """The plan has a model of a name of its own, which has 1.4 times the FLOPs of the one that was trained."""
    path = forgery.folder.parent / "wide_tiny.toml"
    text = library().paths("models")["llama_tiny"].read_text()
    wider = {"llama_tiny": "wide_tiny", "intermediate_size = 352": "intermediate_size = 640", "1_000_000": "1_400_000"}
    for old, new in wider.items():
        text = text.replace(old, new)
    path.write_text(text)
    forgery.replan(f"model={path}")


def balanced_routing_sold_as_learned(forgery):
    """Tokens went to experts by a balanced table, which is faster; the plan says that a router was trained."""
    forgery.replan("model=qwen3_moe_tiny")
    forgery.set_losses([loss - math.log(2) for loss in forgery.curve().values()])
    forgery.set_sequences(forgery.forward(contract={"routing": "balanced"}))
    model, draw = forgery.plan["spec"]["model"], random.Random(0)
    experts, top_k = model["mixture"]["experts"], model["mixture"]["top_k"]
    for rank, rows in enumerate(forgery.ranks):
        layers = []
        for _ in range(model["layers"]):
            counts = [640 * top_k // experts + draw.randrange(-20, 20) for _ in range(experts)]
            layers.append([640 * top_k - sum(counts[1:]), *counts[1:]])
        rows.insert(-1, {"kind": "experts", "rank": rank, "layers": layers})


def bf16_sold_as_fp32(forgery):
    """The products were computed in bf16, which is faster."""
    forgery.set_losses(CURVES["BF16"])


def emulated_fp8_sold_as_real(forgery):
    """A run that emulated fp8 is handed in as one whose products were computed in fp8."""
    forgery.replan("precision=fp8_tensorwise", "emulate_precision=true")
    forgery.plan["spec"]["tuning"]["emulate_precision"] = False
    changes = forgery.plan["spec"]["changes"]
    forgery.plan["spec"]["changes"] = [change for change in changes if "emulate" not in change["path"]]
    forgery.plan["peak_problem"] = None
    forgery.set_losses(CURVES["FP8"])
    for record in forgery.of_kind("rank"):
        record["precisions"] |= {"products": "fp8 e4m3, tensorwise"}


def variant_sold_as_the_case(forgery):
    """A run with another learning rate is handed in with the contract of the case."""
    forgery.set_losses(CURVES["SLOWER_RATE"])


def failed_run_completed(forgery):
    """The run failed after step 8; the other steps are invented."""
    noise = _noise(8, 0.02)
    losses = list(forgery.curve().values())
    forgery.set_losses(
        [*losses[:8], *(loss + more for loss, more in zip(losses[8:], noise, strict=False))], first_too=False
    )


def two_devices_sold_as_one(forgery):
    """Two ranks trained; the run is handed in as that of one rank with twice the accumulation."""
    sequences, curve = forgery.sequences(), forgery.curve()
    forgery.replan("gradient_accumulation=2", devices=1)
    forgery.set_ranks(1)
    for step in forgery.steps():
        step["loss"], step["tokens"] = curve[step["step"]], 128
    for record in forgery.of_kind("rank"):
        record["measured_tokens"] *= 2
        record["communication_seconds"] = None
    forgery.set_sequences(sequences)


def ranks_duplicated(forgery):
    """Two ranks trained; copies of their records with other noise make a run of four ranks and twice the batch."""
    sequences = forgery.sequences()
    forgery.replan("global_batch=8", devices=4)
    copies = [[dict(row) for row in rows] for rows in forgery.ranks]
    forgery.set_ranks(4)
    for rank, rows in enumerate(copies):
        forgery.set_rank(2 + rank, rows)
    times = {(rank, row["step"]): row["step_seconds"] for rank in (0, 1) for row in copies[rank] if "step" in row}
    noise = {rank: _noise(rank, 1e-4, STEPS + 1) for rank in range(4)}
    for rank in (2, 3):
        for row in forgery.ranks[rank]:
            if row.get("kind") == "step":
                row["loss"] += 100 * noise[rank][row["step"]]
    forgery.set_window(lambda rank, step: times[rank % 2, step] + (rank > 1) * noise[rank][step])
    forgery.set_sequences([*sequences, *(loss + more for loss, more in zip(sequences, _noise(9, 0.02), strict=False))])


def cpu_sold_as_two_gpus(forgery):
    """The run of a CPU is handed in as that of two H800 at 55 % MFU: probe, readings, drivers and times."""
    created = forgery.plan["created"]
    forgery.replan(on="NVIDIA H800:1x2", vendor="nvidia")
    plan = forgery.plan
    plan["created"] = created
    plan["probe"] |= {"simulated": False, "driver": "570.86.15"}
    for index, device in enumerate(plan["probe"]["devices"]):
        device["uuid"] = f"GPU-6e1f0b5{index}-9c1d-4a5e-8f6a-1f2d3c4b5a69"
    plan["env"] = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    forgery.documents["machine.json"] |= {"driver": "570.86.15", "environment": plan["env"]}
    seconds = 64 * 6e6 / (0.55 * plan["peak"]["flops_per_second"])
    jitter = {rank: _noise(rank, 0.01 * seconds, STEPS + 1) for rank in range(2)}
    forgery.set_window(lambda rank, step: seconds + jitter[rank][step])
    for record in forgery.of_kind("rank"):
        record["kernels"]["attention"] = "flash"
        record["packages"] = {
            name.replace("llmperf_cpu", "llmperf_nvidia"): version for name, version in record["packages"].items()
        }
        record["peak_memory_bytes"], record["peak_reserved_bytes"] = 61_200_000_000 + record["rank"], 64_000_000_000
    for number, sample in enumerate(forgery.samples):
        sample["devices"] = [_gpu(index, number) for index in range(2)]


def _gpu(index, number):
    return {
        "index": index,
        "memory_used_bytes": 65_000_000_000,
        "memory_total_bytes": 85_520_809_984,
        "utilisation_percent": 99.0,
        "power_watts": 640.0 + 3 * (number % 5) + index,
        "temperature_celsius": 61.0 + number % 3,
        "energy_joules": 1e6 + 640.0 * number,
        "throttle_reasons": [],
        "process_ids": None,
    }


def cpu_peak_lowered(forgery):
    """The measured peak of the host is 0.6 times what it is, wherever it is written: MFU is 1.67 times as high."""
    for peak in (forgery.plan["peak"], forgery.documents["ending.json"].get("peak_again")):
        if peak is not None:
            peak["flops_per_second"] *= 0.6


def energy_invented(forgery):
    """The host drew a tenth of the power that it drew."""
    with_power(forgery, 12.0)


def with_power(forgery, watts):
    """Readings by which the host drew a power, also from the begin to the end of the measured window."""
    begun = {row["phase"]: row["monotonic"] for row in forgery.ranks[0] if "phase" in row}
    begin, end = begun["measuring"], begun["evaluating"]
    for rows in forgery.tables.values():
        samples = [row for row in rows if row.get("kind") == "memory" and row["devices"]]  # the last: host alone
        for share in (0.0, 0.25, 0.5, 0.75, 1.0) if samples else ():
            at = begin + share * (end - begin)
            before = max(
                (one for one in samples if one["monotonic"] <= at), key=itemgetter("monotonic"), default=samples[0]
            )
            sample = json.loads(json.dumps(before))
            rows.append(sample | {"monotonic": at, "at": sample["at"] + at - before["monotonic"]})
        if samples:
            rows.sort(key=itemgetter("monotonic"))
    for sample in forgery.samples:
        for device in sample["devices"]:
            device |= {"power_watts": watts, "energy_joules": watts * sample["monotonic"]}


def memory_halved(forgery):
    """All memory readings and the ranks' own peaks are halved."""
    for record in forgery.of_kind("rank"):
        record["peak_memory_bytes"] //= 2
    for sample in forgery.samples:
        for device in sample["devices"]:
            device["memory_used_bytes"] //= 2


def throttling_removed(forgery):
    """The device was slowed by heat; its readings say that it was not."""
    for sample in forgery.samples:
        for device in sample["devices"]:
            device["throttle_reasons"] = []


def load_of_others_removed(forgery):
    """Other processes used the host, which excuses the slow steps that were removed; its readings hide them."""
    first = None
    for sample in forgery.samples:
        host = sample["host"]
        first = first or host["busy_seconds"] - host["own_seconds"]
        host["busy_seconds"] = first + host["own_seconds"]
        host["programs"] = {}


def versions_altered(forgery):
    """The packages are of other versions than those that ran."""
    for record in forgery.of_kind("rank"):
        record["packages"]["torch"] = "2.9.1+cpu"


def date_moved(forgery):
    """A run of last year is handed in as one of this year."""
    year = 365 * 86400
    forgery.plan["created"] = forgery.plan["created"].replace("2026", "2027")
    for document in forgery.documents.values():
        if isinstance(document, dict) and isinstance(document.get("at"), str):
            document["at"] = document["at"].replace("2026", "2027")
    forgery.move(year)
