"""Forgeries of the result alone: plan and records are left as they are."""


def speed_alone_doubled(result):
    """Tokens per second per device is doubled in result.json."""
    result["metrics"]["tokens_per_second_per_device"] *= 2


def all_speeds_doubled(result):
    """Every speed, time and MFU of result.json is changed in agreement."""
    metrics = result["metrics"]
    metrics["window_seconds"] /= 2
    metrics["tokens_per_second"] *= 2
    metrics["tokens_per_second_per_device"] *= 2
    metrics["step_seconds"] = {name: value and value / 2 for name, value in metrics["step_seconds"].items()}
    result["sections"]["roofline"]["achieved_flops_per_second"] *= 2
    for mfu in result["mfu"]:
        mfu["value"] *= 2


def window_alone_halved(result):
    """The measured window is halved in result.json."""
    result["metrics"]["window_seconds"] /= 2


def device_share_halved(result):
    """Each rank is said to have half as much of its device, which doubles MFU."""
    result["hardware"]["device_share"] /= 2
    for mfu in result["mfu"]:
        mfu["peak_flops_per_second"] /= 2
        mfu["value"] *= 2


def nominal_size_raised(result):
    """The nominal parameters of the model, and so the headline's FLOPs per token, are raised by half."""
    result["model"]["nominal_parameters"] = 1_500_000
    result["mfu"][0]["flops_per_token"] *= 1.5
    result["mfu"][0]["formula"] = "6 x 1,500,000"
    result["mfu"][0]["value"] *= 1.5


def flops_per_token_raised(result):
    """FLOPs per token, and so MFU, are raised by half for every convention."""
    for mfu in result["mfu"]:
        mfu["flops_per_token"] *= 1.5
        mfu["value"] *= 1.5


def final_loss_lowered(result):
    """The last loss is lowered in result.json, in the curve as well."""
    result["metrics"]["final_loss"] -= 1.0
    result["loss_curve"][-1]["loss"] -= 1.0
