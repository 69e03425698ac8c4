"""Published tables of results: import, rules, baselines, reports."""
