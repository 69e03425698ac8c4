"""What trainers on torch share, whatever builds their model: how ranks meet, data, losses, AdamW, and instruments.

| Module | Contents |
|---|---|
| `processes`, `precision` | the rank's device and process group; dtypes of autocast, TF32 |
| `feed`, `losses`, `optimizers` | batches as tensors, losses of steps and sequences, the contract's AdamW |
| `compiled` | functions and blocks through `torch.compile`, and its time |
| `tracing` | a step on tensors without data, for `llmperf estimate` |
| `profiling`, `operations`, `screening` | steps under torch.profiler; single operations; short tests of nodes |

It knows no model: blocks and data-parallel trainers are llmperf-pytorch's.
"""
