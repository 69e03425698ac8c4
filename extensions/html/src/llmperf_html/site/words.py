"""Long texts of the pages of a site."""

from __future__ import annotations

COMPARABLE = "The figures of one table have one contract and can be compared. Tables differ in what was measured."
BARS = (
    "Bars of MFU go from 0 to 100 %, others to the largest value of their contract. A line over a bar is the range of"
    " its repeats; hatched bars are imported figures, which llmperf did not measure."
)
