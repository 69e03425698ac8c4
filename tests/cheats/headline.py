"""Forgeries of the result or the archive alone: plan and records are left as they are."""

import json
import zipfile

from llmperf.submissions.pack import pack


def speed_alone_doubled(forgery):
    """Tokens per second per device is doubled in result.json."""

    def change(result):
        result["metrics"]["tokens_per_second_per_device"] *= 2

    return forgery.seal(change)


def all_speeds_doubled(forgery):
    """Every speed, time and MFU of result.json is changed in agreement."""

    def change(result):
        metrics = result["metrics"]
        metrics["window_seconds"] /= 2
        metrics["tokens_per_second"] *= 2
        metrics["tokens_per_second_per_device"] *= 2
        metrics["step_seconds"] = {name: value and value / 2 for name, value in metrics["step_seconds"].items()}
        result["sections"]["roofline"]["achieved_flops_per_second"] *= 2
        for mfu in result["mfu"]:
            mfu["value"] *= 2

    return forgery.seal(change)


def window_alone_halved(forgery):
    """The measured window is halved in result.json."""

    def change(result):
        result["metrics"]["window_seconds"] /= 2

    return forgery.seal(change)


def device_share_halved(forgery):
    """Each rank is said to have half as much of its device, which doubles MFU."""

    def change(result):
        result["hardware"]["device_share"] /= 2
        for mfu in result["mfu"]:
            mfu["peak_flops_per_second"] /= 2
            mfu["value"] *= 2

    return forgery.seal(change)


def nominal_size_raised(forgery):
    """The nominal parameters of the model, and so the headline's FLOPs per token, are raised by half."""

    def change(result):
        result["model"]["nominal_parameters"] = 1_500_000
        result["mfu"][0]["flops_per_token"] *= 1.5
        result["mfu"][0]["formula"] = "6 x 1,500,000"
        result["mfu"][0]["value"] *= 1.5

    return forgery.seal(change)


def flops_per_token_raised(forgery):
    """FLOPs per token, and so MFU, are raised by half for every convention."""

    def change(result):
        for mfu in result["mfu"]:
            mfu["flops_per_token"] *= 1.5
            mfu["value"] *= 1.5

    return forgery.seal(change)


def final_loss_lowered(forgery):
    """The last loss is lowered in result.json, in the curve as well."""

    def change(result):
        result["metrics"]["final_loss"] -= 1.0
        result["loss_curve"][-1]["loss"] -= 1.0

    return forgery.seal(change)


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


FORGERIES = (
    speed_alone_doubled,
    all_speeds_doubled,
    window_alone_halved,
    device_share_halved,
    nominal_size_raised,
    flops_per_token_raised,
    final_loss_lowered,
    failed_run_called_complete,
    readme_of_archive_edited,
)
