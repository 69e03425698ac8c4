"""Renders the JSON Schemas and the reference pages from dataclasses, hooks and their docstrings.

`./dev python docs/render.py` writes them; with `--check` it only lists the files that are out of date.
"""
