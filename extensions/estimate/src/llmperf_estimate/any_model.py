"""`llmperf estimate --model`: a model by its name, its file, or the configuration of another program."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import click
from llmperf import install_own, write_bytes
from llmperf.errors import UserError
from llmperf.validation import known_library

ANY_CASE = "llama3_1_8b_pretrain_pytorch"
"""Whose devices, optimiser and framework a model without a case has."""
SIZE = "1x8"
"""Nodes and devices of each, where nothing names them."""
SEQ_LEN, GLOBAL_BATCH = 4096, 512
"""Contract of a model without a case: two million tokens a step, as pre-training has."""


def settings_for(model: str, ctx: click.Context, own_case: bool, tuned: bool) -> tuple[str, ...]:
    """Settings that give a case this model, or that of another program's file, and without a case a usual batch.

    The micro batch is 1 unless it is `tuned`.
    """
    path = Path(model)
    if path.suffix and path.suffix != ".toml":
        try:
            from llmperf_huggingface.importing import import_config
            from llmperf_inspect import model_text
        except ModuleNotFoundError as error:
            if error.name not in ("llmperf_huggingface", "llmperf_inspect"):
                raise
            package = error.name.replace("_", "-")
            needed = f"{package}; install it with: {install_own(package)}"
            raise UserError(f"--model {model}: configurations are read by {needed}") from None
        name = path.resolve().parent.name if path.stem == "config" else path.stem
        name = "".join(char if char.isalnum() else "_" for char in name) + "_imported"
        imported = import_config(path, name)
        for line in imported.not_expressed:
            click.echo(f"{model}: not expressed: {line}", err=True)
        path = Path(ctx.with_resource(TemporaryDirectory(prefix="llmperf-model-"))) / f"{name}.toml"
        write_bytes(path, model_text(imported.model).encode())
    facts = known_library().model(str(path) if path.suffix else model, "--model")
    chosen = f"model={path if path.suffix else model}"
    if own_case:
        return (chosen,)
    length = min(SEQ_LEN, facts.max_positions or SEQ_LEN)
    return (chosen, f"seq_len={length}", f"global_batch={GLOBAL_BATCH}", *(() if tuned else ("micro_batch=1",)))
