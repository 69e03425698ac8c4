"""Sign results, archives or verifications with an SSH key, or through sigstore."""

from __future__ import annotations

from pathlib import Path

import click
from llmperf import json_option, print_json, run_folders
from llmperf.errors import UserError
from llmperf.types import Text

from llmperf_verify import sigstore_bundles, ssh_signatures
from llmperf_verify.documents import ARCHIVES, RESULT, VERIFICATION

EXAMPLES = """\b
Examples:
  llmperf sign runs/ID --key ~/.ssh/id_ed25519                   writes runs/ID/result.json.sig
  llmperf sign submission.zip --key ~/.ssh/id_ed25519            writes submission.zip.sig
  llmperf sign runs/ID --key runner_key --as witness             a trusted runner that made the run
  llmperf sign runs/ID/verification.json --key ~/.ssh/id_ed25519
  llmperf sign submission.zip --sigstore                         writes submission.zip.sigstore.json
  llmperf validate submission.zip --signers allowed_signers
"""


@click.command("sign", epilog=EXAMPLES)
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(path_type=Path),
                shell_complete=run_folders)  # fmt: skip
@click.option("--key", metavar="FILE", type=click.Path(path_type=Path),
              help="SSH key: a private key, or the public half of one in an agent or on a token.")  # fmt: skip
@click.option("--sigstore", "by_sigstore", is_flag=True,
              help="Sign through sigstore instead: by the identity of a job, or in a browser.")  # fmt: skip
@click.option("--as", "role", type=click.Choice(["maker", "witness"]), default="maker", show_default=True,
              help="What the signature states: who made the result, or who ran it or watched the run.")  # fmt: skip
@json_option
def command(paths: tuple[Path, ...], key: Path | None, by_sigstore: bool, role: str, as_json: bool) -> None:
    """Sign results, archives or verifications with an SSH key (`ssh-keygen -Y sign`), or through sigstore.

    PATH is a run folder or its result.json, an archive, or a verification.json. The signature of FILE is FILE.sig
    beside it, that of a witness FILE.witness.sig. A result lists the hashes of its plan and records, so its signature
    covers them; `llmperf pack` replaces names of hosts and so changes the result: sign the archive instead. A sigstore
    bundle of FILE is FILE.sigstore.json; it needs the network and the package `sigstore`.
    """
    if (key is None) != by_sigstore:
        raise UserError("expected either --key FILE or --sigstore")
    files = [_signed_file(path) for path in paths]
    for file in files:
        if file.name.endswith(VERIFICATION) and role == "witness":
            raise UserError(f"{file}: --as witness is for results and archives")
    made: list[str] = []
    for file in files:
        if key is None:
            made.append(str(sigstore_bundles.sign(file, witness=role == "witness")))
        else:
            namespace: ssh_signatures.Namespace = "llmperf-witness" if role == "witness" else "llmperf"
            if file.name.endswith(VERIFICATION):
                namespace = "llmperf-verification"
            made.append(str(ssh_signatures.sign(file, key.expanduser(), namespace)))
        if not as_json:
            click.echo(made[-1])
    if as_json:
        print_json({"signatures": made})


def _signed_file(path: Path) -> Path:
    """The file that is signed for a path: result.json of a run folder, else the file itself; UserError if none."""
    if path.is_dir():
        if not (path / RESULT).is_file():
            raise UserError(Text("{}: expected a run folder with {}, found none", path, RESULT))
        return path / RESULT
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    if path.name != RESULT and not path.name.endswith((*ARCHIVES, VERIFICATION)):
        raise UserError(f"{path}: expected a run folder, {RESULT}, an archive or {VERIFICATION}, found another file")
    return path
