"""Losses of other trainings: the mean of each of the 12 steps, in nats per token.

Each comes from a run of the honest contract with the one difference that its comment names, on a CPU, by the `pytorch`
framework (the first five) or by the kit's reference in NumPy. A cheater who trains so has these losses to sell.
"""

SEED_1 = (
    6.984766, 6.969196, 6.91293, 6.977951, 6.917958, 6.94677, 6.928404, 6.96975, 6.903313, 6.883711, 6.934849, 6.797799,
)  # fmt: skip
"""seed=1"""
BF16 = (
    6.95137, 7.003655, 6.968567, 6.927153, 6.903998, 6.912744, 6.776229, 6.954092, 6.892008, 6.881893, 6.877499,
    6.942225,
)  # fmt: skip
"""precision=bf16"""
FP8 = (
    6.949526, 7.00434, 6.968864, 6.927206, 6.901365, 6.912826, 6.772057, 6.961556, 6.88491, 6.897347, 6.878405,
    6.932353,
)  # fmt: skip
"""precision=fp8_tensorwise emulate_precision=true"""
SLOWER_RATE = (
    6.951391, 7.003743, 6.970119, 6.936453, 6.910954, 6.914004, 6.802747, 6.944046, 6.901947, 6.899303, 6.882726,
    6.935322,
)  # fmt: skip
"""contract.optimizer.lr=0.0008, not 0.001"""
HALF_BATCH = (
    6.935044, 6.975814, 6.989962, 7.019762, 6.960156, 6.970084, 6.86645, 6.928239, 6.901403, 6.954996, 6.872413,
    6.976947,
)  # fmt: skip
"""global_batch=2"""
EVERY_THIRD_UPDATE_SKIPPED = (
    6.951392, 7.003751, 6.968462, 6.9509, 6.904822, 6.897938, 6.863507, 6.94491, 6.927878, 6.909412, 6.947297, 6.930462,
)  # fmt: skip
"""No update in steps 3, 6, 9 and 12."""
NOT_REDUCED = (
    6.951392, 7.006801, 6.969191, 6.96784, 6.971279, 6.87872, 6.807893, 6.86924, 6.930253, 6.947226, 6.919283, 6.961478,
)  # fmt: skip
"""Updates by the gradients of rank 0's data alone."""
REPEATED_DATA = (
    6.951392, 6.588969, 6.321686, 6.092351, 5.879872, 5.640156, 5.393474, 5.196867, 5.010518, 4.791982, 4.580708,
    4.422289,
)  # fmt: skip
"""The sequences of step 1 in every step."""
