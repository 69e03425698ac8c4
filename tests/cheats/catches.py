"""The lowest level of verification that catches each cheat; `docs/trust.md` has the same table with the reasons."""

from __future__ import annotations

from llmperf_verify.verification import Claim, Level

CATCHES: dict[str, Level | None] = {
    # the result or the archive alone is edited
    "speed_alone_doubled": "consistent",
    "all_speeds_doubled": "consistent",
    "window_alone_halved": "consistent",
    "device_share_halved": "consistent",
    "nominal_size_raised": "consistent",
    "flops_per_token_raised": "consistent",
    "final_loss_lowered": "consistent",
    "failed_run_called_complete": "consistent",
    "readme_of_archive_edited": "consistent",
    # plan or records are edited
    "window_nine_tenths": "consistent",
    "both_tolerances_used": "consistent",
    "times_scaled_without_stamps": "consistent",
    "window_ends_early": "consistent",
    "tokens_doubled": "consistent",
    "batch_doubled_in_plan": "consistent",
    "sequence_doubled_in_plan": "consistent",
    "constant_losses": "consistent",
    "identical_step_times": "consistent",
    "second_rank_copied": "consistent",
    "slow_steps_left_out": "consistent",
    "slow_steps_moved_to_warmup": "consistent",
    "variant_hidden_in_result": "consistent",
    "source_hashes_zeroed": "consistent",
    "peak_of_another_dtype": "consistent",
    # everything agrees; what was trained is not what the plan says
    "losses_by_formula": "spot-checked",
    "losses_with_noise": "spot-checked",
    "losses_of_another_run": "spot-checked",
    "losses_invented_after_step_1": "rerun",
    "batch_doubled": "spot-checked",
    "sequence_doubled": "spot-checked",
    "ranks_duplicated": "spot-checked",
    "fewer_layers_trained": "spot-checked",
    "own_model_with_more_work": "spot-checked",
    "balanced_routing_sold_as_learned": "spot-checked",
    "half_batch_trained": "rerun",
    "second_rank_invented": "rerun",
    "updates_skipped": "rerun",
    "data_repeated": "rerun",
    "bf16_sold_as_fp32": "rerun",
    "variant_sold_as_the_case": "rerun",
    "failed_run_completed": "rerun",
    # everything agrees; the training is real, what is said of machine or time is not
    "times_four_fifths": "rerun",
    "times_halved": "rerun",
    "fastest_step_everywhere": "rerun",
    "two_devices_sold_as_one": "rerun",
    "cpu_sold_as_two_gpus": "rerun",
    "emulated_fp8_sold_as_real": "consistent",
    "cpu_peak_lowered": "rerun",
    "energy_invented": "rerun",
    "memory_halved": "rerun",
    "throttling_removed": "witnessed",
    "load_of_others_removed": "witnessed",
    "versions_altered": "witnessed",
    "date_moved": "challenged",
    # the environment of the user: test_environment.py
    "clock_slowed_by_a_preloaded_library": "rerun",
    "clock_slowed_by_sitecustomize": "rerun",
    "kept_peak_edited": "consistent",
    "known_model_replaced": "consistent",
    "kept_tokens_zeroed": "consistent",
    # the side of the validator: test_validator_side.py
    "modules_beside_the_documents": "consistent",
    "plugin_beside_the_documents": "consistent",
    "configuration_beside_the_documents": "consistent",
    "verification_of_ones_own": "consistent",
    "link_in_an_archive": "consistent",
}
"""None: no level."""

CLAIMS: dict[str, Claim] = {
    "times_four_fifths": "speed",
    "times_halved": "speed",
    "fastest_step_everywhere": "speed",
    "two_devices_sold_as_one": "speed",
    "cpu_sold_as_two_gpus": "speed",
    "cpu_peak_lowered": "peak",
    "energy_invented": "energy",
    "memory_halved": "memory",
    "clock_slowed_by_a_preloaded_library": "speed",
    "clock_slowed_by_sitecustomize": "speed",
}
"""Of the level `rerun`: those whose losses are right, and what a rerun on the same device model warns of (LP677)."""
