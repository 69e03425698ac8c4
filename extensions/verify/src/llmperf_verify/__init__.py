"""llmperf extension `verify`: what others can check of a result beyond the rules, and what each check proves."""
