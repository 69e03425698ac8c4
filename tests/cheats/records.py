"""Forgeries of plan, records or archive, from which llmperf computes the result again. Something else is forgotten."""

import json
import zipfile

from llmperf_verify.pack_command import pack


def scale(forgery, *names, factor):
    for rows in forgery.ranks:
        for row in rows:
            row.update({name: row[name] * factor for name in names if row.get(name) is not None})


def _shift(rows, phase, seconds):
    for row in rows:
        if row.get("phase") == phase:
            row["monotonic"] += seconds


def window_nine_tenths(forgery):
    """The window is 0.905 times the sum of its steps."""
    scale(forgery, "window_seconds", "communication_seconds", factor=0.905)


def both_tolerances_used(forgery):
    """Steps are 0.91 times as long as the time between them, and the window 0.905 times its steps."""
    scale(forgery, "step_seconds", factor=0.91)
    scale(forgery, "window_seconds", "communication_seconds", factor=0.91 * 0.905)


def times_scaled_without_stamps(forgery):
    """Steps and windows take 0.8 times as long; when each step ended is left as it was."""
    scale(forgery, "step_seconds", "window_seconds", "communication_seconds", factor=0.8)


def window_ends_early(forgery):
    """Steps and windows take 0.8 times as long, and the phase after the window begins as much earlier."""
    windows = [record["window_seconds"] for record in forgery.of_kind("rank")]
    scale(forgery, "step_seconds", "window_seconds", "communication_seconds", factor=0.8)
    for rows, window in zip(forgery.ranks, windows, strict=True):
        _shift(rows, "evaluating", -0.2 * window)


def tokens_doubled(forgery):
    """Each step is said to have trained twice its tokens, which llmperf itself takes for a failure."""
    scale(forgery, "tokens", "measured_tokens", factor=2)

    def change(result):
        assert result["failure"] is not None
        result["status"], result["failure"] = "complete", None

    return forgery.seal(change)


def batch_doubled_in_plan(forgery):
    """The plan has twice the global batch, the records have not."""
    forgery.replan("global_batch=8", "micro_batch=4")


def sequence_doubled_in_plan(forgery):
    """The plan has twice the sequence length, the records have not."""
    forgery.replan("seq_len=64")


def constant_losses(forgery):
    """Nothing was trained: the loss is the same in every step."""
    forgery.set_losses([6.95] * 12)
    for step in forgery.steps():
        step["loss"] = 6.95


def identical_step_times(forgery):
    """Every step took exactly the time of the fastest, with stamps and windows to match."""
    fastest = min(step["step_seconds"] for step in forgery.steps(measured=True))
    forgery.set_window(lambda rank, step: fastest)


def second_rank_copied(forgery):
    """One rank ran, and its records are handed in a second time as those of the other."""
    forgery.set_rank(1, forgery.ranks[0])


def slow_steps_left_out(forgery):
    """The two slowest steps are taken out of the records."""
    times = {step["step"]: step["step_seconds"] for step in forgery.steps(measured=True)}
    slowest = sorted(times, key=times.__getitem__)[-2:]
    forgery.set_window(lambda rank, step: 0.0 if step in slowest else times[step] * (1 + 1e-4 * rank))
    for rank, rows in enumerate(forgery.ranks):
        kept = [row for row in rows if row.get("step") not in slowest]
        for row in kept:
            if row.get("kind") == "rank":
                row["measured_steps"] -= 2
                row["measured_tokens"] -= 2 * 64
        forgery.set_rank(rank, kept)


def slow_steps_moved_to_warmup(forgery):
    """The first measured steps, which are slow, are called warm-up; the contract is left as it was."""
    for rows in forgery.ranks:
        (begin,) = [row for row in rows if row.get("phase") == "measuring"]
        rows.remove(begin)
        last = next(row for row in rows if row.get("step") == 4)
        rows.insert(rows.index(last) + 1, {**begin, "at": last["at"], "monotonic": last["monotonic"]})
        for row in rows:
            if row.get("kind") == "step" and row["step"] <= 4:
                row["measured"] = False
            elif row.get("phase") == "evaluating":
                window = row["monotonic"] - last["monotonic"]
            elif row.get("kind") == "rank":
                row["measured_steps"], row["measured_tokens"] = 8, 8 * 64
                row["communication_seconds"] *= window / row["window_seconds"]
                row["window_seconds"] = window


def variant_hidden_in_result(forgery):
    """The changes of a variant are taken out of plan and result, whose contract still has them."""
    forgery.plan["spec"]["changes"] = []


def source_hashes_zeroed(forgery):
    """The source hashes of all plugins are zeroes, so that nobody sees that one was patched."""
    for plugin in forgery.plan["plugins"]:
        plugin["source_hash"] = "0" * 64


def peak_of_another_dtype(forgery):
    """The peak is that of a dtype in which the device computes more slowly."""
    forgery.plan["peak"] |= {"dtype": "fp64", "flops_per_second": forgery.plan["peak"]["flops_per_second"] / 2}


def failed_run_called_complete(forgery):
    """A run that was interrupted is called complete in result.json."""
    forgery.documents["ending.json"]["cause"] = "interrupted"

    def change(result):
        result["status"], result["failure"] = "complete", None

    return forgery.seal(change)


def readme_of_archive_edited(forgery):
    """The README of an archive shows twice the speed of its results."""
    folder = forgery.seal()
    speed = json.loads((folder / "result.json").read_text())["metrics"]["tokens_per_second_per_device"]
    honest, forged = folder.with_suffix(".zip"), folder.with_name("forged.zip")
    pack([folder], honest)
    with zipfile.ZipFile(honest) as archive, zipfile.ZipFile(forged, "w") as other:
        for name in archive.namelist():
            data = archive.read(name)
            if name == "README.md":
                edited = data.replace(f"{speed:,.1f}".encode(), f"{2 * speed:,.1f}".encode())
                assert edited != data
                data = edited
            other.writestr(name, data)
    return forged
