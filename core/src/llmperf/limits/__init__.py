"""Measured limits of a machine: single operations that ranks time, and the rates that follow from them."""
