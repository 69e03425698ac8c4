"""Levels of verification beyond the rules: what a stranger can check of a result, and what each check proves."""
