"""The files of a run folder: names, writers, readers."""
