"""How far the gradient that an engine adds up over a step is from the exact sum: `gradient_sums_program.py IN OUT`.

The exact sum has the same 16-bit gradients of single micro batches, added up in float64.
"""

import rank_program as shared


def relative_error(task, world):
    """Norm of the difference to the exact sum / norm of the exact sum."""
    import torch
    from deepspeed.utils import safe_get_full_grad
    from llmperf_torchkit.losses import mean_cross_entropy
    from llmperf_torchkit.trainer import Feed

    plan = shared.make_plan(task)
    with shared.plugin_of(task).llmperf_build_trainer(plan, shared.TestDevice("cpu")) as trainer:
        engine, rounds = trainer._engine, plan.batch.gradient_accumulation
        parameters = [parameter for parameter in engine.module.parameters() if parameter.requires_grad]
        exact = [torch.zeros(parameter.shape, dtype=torch.float64) for parameter in parameters]
        feed = Feed(plan, torch.device("cpu"))
        for _ in range(rounds):
            inputs, labels = feed.next()
            loss = mean_cross_entropy(engine.module(inputs), labels) / rounds
            for total, gradient in zip(exact, torch.autograd.grad(loss, parameters), strict=True):
                total += gradient
        feed.close()
        summed = []
        step = engine.step

        def look_and_step():
            if engine.is_gradient_accumulation_boundary():
                summed.extend(safe_get_full_grad(parameter).double() for parameter in parameters)
            step()

        engine.step = look_and_step
        trainer.train_step()
    difference = sum(((one - other) ** 2).sum() for one, other in zip(summed, exact, strict=True))
    return float((difference / sum((total**2).sum() for total in exact)).sqrt())


shared.train = relative_error

if __name__ == "__main__":
    shared.main()
