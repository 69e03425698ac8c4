"""One rank that trains adapters as it is told and looks at what they did: `lora_program.py TASKS.json RESULTS.json`."""

import hashlib
import os
from pathlib import Path

import rank_program as program


def train(task, world):
    """Losses over the tokens of all ranks, and what became of frozen weights, gradients and optimiser states.

    With {"ranks": 1} each rank trains alone.
    """
    world = task.get("ranks", world)
    plan = program.make_plan(task, world)
    if "run_dir" in task:
        os.environ["LLMPERF_RUN_DIR"] = task["run_dir"]
    builder = program.plugin_of(task).llmperf_build_trainer
    with builder(plan, program.TestDevice(task.get("device", "cpu"))) as trainer:
        first = evaluated(trainer) if task.get("evaluate_first") else {}
        model = program.task_model(trainer)
        model = getattr(model, "module", model)  # out of DistributedDataParallel
        before = frozen_digest(trainer, model)
        outputs = [trainer.train_step() for _ in range(plan.spec.contract.steps)]
        sequences = program.own_sequences(plan, trainer, outputs[0])
        found = {
            "losses": mean_losses(outputs, world),
            "sequences": program.all_sequences(sequences, world),
            "norms": [None if one.grad_norm is None else float(one.grad_norm) for one in outputs],
            "tokens": [one.tokens for one in outputs],
            **shapes(trainer, model),
            "frozen_unchanged": frozen_digest(trainer, model) == before,
            "first": first,
            "evaluation": evaluated(trainer),
        }
        if "run_dir" in task and world == 1:
            found |= reloaded(trainer, model, Path(task["run_dir"]) / "adapter")
    return found


def mean_losses(outputs, world):
    import torch

    sums = torch.tensor([[float(one.loss) * one.tokens, one.tokens] for one in outputs], dtype=torch.float64)
    if world > 1:
        torch.distributed.all_reduce(sums)
    return (sums[:, 0] / sums[:, 1]).tolist()


def evaluated(trainer):
    figures = {}
    for part in trainer.evaluate():
        figures.update(part)
    trainer._adapted.train()
    return figures


def shapes(trainer, model):
    """Elements: trained, frozen, with optimiser states, and of frozen parameters that have gradients."""
    named = list(model.named_parameters())
    states = [state for state in trainer._optimizer.state.values() if "exp_avg" in state]
    return {
        "trained": sum(whole_size(one) for _, one in named if one.requires_grad),
        "frozen": sum(whole_size(one) for _, one in named if not one.requires_grad),
        "names": [name for name, one in named if one.requires_grad],
        "dtypes": sorted({(str(one.dtype), one.requires_grad) for _, one in named}),
        "moments_here": sum(state["exp_avg"].numel() for state in states),
        "held_here": sum(one.numel() for _, one in named),
        "frozen_gradients": sum(one.grad is not None for _, one in named if not one.requires_grad),
    }


def whole_size(parameter):
    return getattr(parameter, "ds_numel", parameter.numel())


def frozen_digest(trainer, model):

    digest = hashlib.sha256()
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            continue
        if hasattr(parameter, "ds_id"):
            import deepspeed

            with deepspeed.zero.GatheredParameters([parameter]):
                content = parameter.detach().float().cpu().contiguous()
                digest.update(name.encode() + content.numpy().tobytes())
        else:
            digest.update(name.encode() + parameter.detach().float().cpu().numpy().tobytes())
    return digest.hexdigest()


def reloaded(trainer, model, folder):
    """Largest differences between the trained logits and those of the saved adapter, and of it merged."""
    import torch
    from llmperf_huggingface.export import huggingface_config
    from peft import PeftModel
    from transformers import LlamaConfig, LlamaForCausalLM

    ids = torch.arange(48).remainder(200).view(2, 24)
    model.eval()
    with torch.no_grad():
        expected = model(ids)
        base = LlamaForCausalLM(LlamaConfig(**huggingface_config(trainer._plan.spec.model)))
        plain = {
            name.replace(".base_layer.", "."): one.detach().clone()
            for name, one in model.get_base_model().state_dict().items()
            if "lora_" not in name
        }
        base.load_state_dict(plain)
        again = PeftModel.from_pretrained(base, str(folder)).eval()
        reload = (again(input_ids=ids).logits - expected).abs().max()
        with again.disable_adapter():
            effect = (again(input_ids=ids).logits - expected).abs().max()
        merged = (again.merge_and_unload()(input_ids=ids).logits - expected).abs().max()
    return {"reload": float(reload), "merge": float(merged), "effect": float(effect)}


program.train = train

if __name__ == "__main__":
    program.main()
