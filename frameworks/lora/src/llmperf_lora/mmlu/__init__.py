"""MMLU (Hendrycks et al. 2021), few-shot, by likelihood, as lm-evaluation-harness has it."""
