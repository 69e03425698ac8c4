"""One training step at full size without its device: the trainer's own code on tensors without data.

The tensors are torch's fake tensors on a device type of their own, so that the trainer takes the branches that it takes
on an accelerator. `step.traced_step` is the entry for every framework built on torch.
"""
