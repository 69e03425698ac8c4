"""The stopwatch: worker, measured loop, recorder, sampler."""
