"""A decoder-only transformer composed from the facts of a model, whatever its family."""
