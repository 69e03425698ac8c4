"""Renders the JSON Schemas and the reference pages from dataclasses, hooks and their docstrings."""
