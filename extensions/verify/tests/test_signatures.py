"""Signatures of results, archives and verifications, by a real ssh-keygen."""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest
from llmperf.cli.main import call
from llmperf.files import json_files
from llmperf.reporting import result_sheet
from llmperf.types import Result
from llmperf_verify.verification import Verification

pytestmark = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen (openssh-client) is missing")


@pytest.fixture
def keys(tmp_path, monkeypatch):
    """Keys of a maker and a witness, and a file of allowed signers for each."""
    folder = tmp_path / "keys"
    folder.mkdir()
    for name in ("maker", "witness"):
        key = folder / name
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key, "-C", ""], check=True)
        (folder / f"{name}s").write_text(f"{name}@example.org {key.with_suffix('.pub').read_text()}")
    monkeypatch.chdir(folder)
    (folder / "llmperf").mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))
    return folder


def test_a_signed_result_names_its_signer(run_folder, keys, ran, capsys):
    assert ran(0, "sign", run_folder, "--key", "maker").out == f"{run_folder}/result.json.sig\n"
    line = ran(0, "validate", run_folder).out
    assert "LP673 note result.json was signed with key SHA256:" in line
    assert "--signers FILE shows whose key that is" in line
    assert call(["validate", str(run_folder), "--signers", "makers"]) == 0
    assert "LP673 note result.json was signed by maker@example.org with key SHA256:" in capsys.readouterr().out


@pytest.mark.slow
def test_configured_signers_are_named_without_being_required(run_folder, keys, ran):
    (keys / "llmperf" / "llmperf.toml").write_text('[trust]\nsigners = "../makers"\n')
    assert "LP673" not in ran(0, "validate", run_folder).out
    call(["sign", str(run_folder), "--key", "maker"])
    assert "LP673 note result.json was signed by maker@example.org" in ran(0, "validate", run_folder).out


@pytest.mark.parametrize(("option", "code"), [("--signers", "LP673"), ("--witnesses", "LP674")])
def test_a_missing_signature_is_an_error_where_one_is_required(run_folder, keys, option, code, ran):
    assert f"{code} error expected a signature result.json." in ran(1, "validate", run_folder, option, "makers").out


def test_signatures_by_another_key_of_another_role_or_of_another_text_are_errors(run_folder, keys, ran):
    call(["sign", str(run_folder), "--key", "witness"])
    assert "LP673 error" in (out := ran(1, "validate", run_folder, "--signers", "makers").out)
    assert "expected a key of makers for llmperf, found SHA256:" in out
    signature = (run_folder / "result.json.sig").rename(run_folder / "result.json.witness.sig")
    assert "LP674 error" in ran(1, "validate", run_folder, "--witnesses", "witnesss").out
    signature.rename(run_folder / "result.json.sig")
    path = run_folder / "result.json"
    path.write_text(path.read_text() + "\n")
    assert "LP673 error" in ran(1, "validate", run_folder).out


def test_a_key_that_is_allowed_for_other_namespaces_is_an_error_that_names_the_right_one(run_folder, keys, capsys):
    call(["sign", str(run_folder), "--key", "maker"])
    signers = keys / "makers"
    key = (keys / "maker.pub").read_text()
    signers.write_text(f'maker@example.org namespaces="file" {key}')
    assert call(["validate", str(run_folder), "--signers", "makers"]) == 1
    assert 'for other namespaces; its line needs namespaces="llmperf", or no namespaces' in capsys.readouterr().out
    signers.write_text(f'maker@example.org namespaces="llmperf,llmperf-witness" {key}')
    assert call(["validate", str(run_folder), "--signers", "makers"]) == 0


def test_a_witness_is_named(run_folder, keys, ran, capsys):
    words = ["sign", str(run_folder), "--key", "witness", "--as", "witness"]
    assert call(words) == 0
    assert "is there already; remove it to sign again" in ran(2, *words).err
    assert call(["validate", str(run_folder), "--witnesses", "witnesss"]) == 0
    assert "LP674 note result.json was signed by witness@example.org" in capsys.readouterr().out


def test_the_signature_of_an_archive_covers_its_results_also_where_it_was_unpacked(run_folder, keys, ran, capsys):
    assert call(["pack", str(run_folder), "-o", "sub.zip"]) == 0
    assert call(["sign", "sub.zip", "--key", "maker"]) == 0
    assert call(["validate", "sub.zip", "--signers", "makers", "--record"]) == 0
    assert "LP673 note sub.zip was signed by maker@example.org" in capsys.readouterr().out
    verification = json_files.load(keys / "sub.zip.verification.json", Verification)
    checks = {check.level: check.outcome for check in verification.results[0].checks}
    assert checks == {"consistent": "passed", "signed": "passed"}
    shutil.unpack_archive("sub.zip", "sub")
    assert "consistent, signed (claimed)" in ran(0, "report", "sub").out


@pytest.mark.slow
def test_a_verification_is_shown_by_reports_and_its_signer_only_if_configured(run_folder, keys, capsys):
    call(["sign", str(run_folder), "--key", "maker"])
    assert call(["validate", str(run_folder), "--signers", "makers", "--record"]) == 0
    verification = run_folder / "verification.json"
    assert call(["sign", str(verification), "--key", "witness"]) == 0
    assert call(["validate", str(run_folder)]) == 0
    claimed = "LP675 note verification.json says: consistent, signed (claimed, signer unknown)"
    assert claimed in capsys.readouterr().out

    def verified():
        assert call(["report", str(run_folder)]) == 0
        return next(line for line in capsys.readouterr().out.splitlines() if line.startswith("verified")).split(
            None, 1
        )[1]

    assert verified() == "consistent, signed (claimed)"
    (keys / "llmperf" / "llmperf.toml").write_text('[trust]\nverifiers = "../witnesss"\n')
    assert verified() == "consistent, signed (by witness@example.org)"
    assert call(["validate", str(run_folder)]) == 0
    assert "verification.json says: verified: consistent, signed (by witness@example.org)" in capsys.readouterr().out
    (keys / "llmperf" / "llmperf.toml").write_text('[trust]\nverifiers = "../makers"\n')
    assert verified() == "consistent, signed (claimed)"
    verification.write_text(verification.read_text().replace("signed", "rerun"))
    assert verified().startswith("unknown: ")


def test_a_verification_of_another_result_is_a_warning_and_reports_say_so(run_folder, keys, capsys):
    assert call(["validate", str(run_folder), "--record"]) == 0
    path = run_folder / "result.json"
    path.write_text(path.read_text() + "\n")
    capsys.readouterr()
    assert call(["validate", str(run_folder)]) == 0
    assert "verification.json:/results: LP675 warning expected result.json with SHA-256" in capsys.readouterr().out
    call(["report", str(run_folder)])
    assert re.search("^verified +verification of another result.json$", capsys.readouterr().out, re.M)


def test_the_level_of_a_stolen_verification_is_shown_nowhere(run_folder, keys, capsys, tmp_path):
    stolen = {"level": "rerun", "outcome": "passed", "message": "5 steps", "figures": {}, "claims": []}
    assert call(["validate", str(run_folder), "--record"]) == 0
    path = run_folder / "verification.json"
    document = json.loads(path.read_text())
    document["results"][0] |= {"result_sha256": "0" * 64, "checks": [stolen]}
    path.write_text(json.dumps(document))
    sheet = result_sheet(json_files.load(run_folder / "result.json", Result), run_folder / "result.json")
    assert sheet.cell("verification").value is None
    capsys.readouterr()
    for command in ("report", "validate"):
        call([command, str(run_folder)])
    call(["report", str(run_folder), "--format", "json"])
    printed = capsys.readouterr().out.replace("Nobody has rerun", "").replace("--rerun", "")
    assert "rerun" not in printed
    call(["report", str(run_folder), "--format", "terminal"])
    assert "Nobody has rerun this run" in capsys.readouterr().out


def test_errors_are_recorded_as_not_consistent(run_folder, keys):
    document = json.loads((run_folder / "result.json").read_text())
    document["metrics"]["tokens_per_second"] *= 2
    (run_folder / "result.json").write_text(json.dumps(document))
    assert call(["validate", str(run_folder), "--record"]) == 1
    (check,) = json_files.load(run_folder / "verification.json", Verification).results[0].checks
    assert (check.level, check.outcome) == ("consistent", "failed")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere", "--key", "maker"], "nowhere: no such file"),
        (["makers", "--key", "maker"], "makers: expected a run folder, result.json, an archive or verification.json"),
        (["RUN", "--key", "nokey"], "--key: expected an SSH key, found no file nokey"),
        (["RUN", "--key", "makers"], "cannot be signed with makers"),
    ],
)
def test_what_cannot_be_signed_is_refused(run_folder, keys, words, message, ran):
    assert message in ran(2, "sign", *(run_folder if word == "RUN" else word for word in words)).err
    assert not (run_folder / "result.json.sig").exists()


@pytest.fixture
def sigstore(tmp_path, monkeypatch):
    """A program `sigstore` that takes the options of sigstore 4: bundles name the digest and who signed."""
    program = tmp_path / "bin" / "sigstore"
    program.parent.mkdir()
    program.write_text(
        f"#!{sys.executable}\n"
        "import argparse, hashlib, json, pathlib, sys\n"
        "parser = argparse.ArgumentParser()\n"
        "commands = parser.add_subparsers(dest='command', required=True)\n"
        "sign = commands.add_parser('sign')\n"
        "verify = commands.add_parser('verify').add_subparsers(required=True).add_parser('identity')\n"
        "verify.add_argument('--offline', action='store_true', required=True)\n"
        "verify.add_argument('--cert-identity', required=True)\n"
        "verify.add_argument('--cert-oidc-issuer', required=True)\n"
        "for each in (sign, verify):\n"
        "    each.add_argument('--bundle', type=pathlib.Path, required=True)\n"
        "    each.add_argument('file', type=pathlib.Path)\n"
        "given = parser.parse_args()\n"
        "digest = hashlib.sha256(given.file.read_bytes()).hexdigest()\n"
        "if given.command == 'sign':\n"
        "    given.bundle.write_text(json.dumps([digest, 'ci@example.org', 'https://issuer.example']))\n"
        "elif json.loads(given.bundle.read_text()) != [digest, given.cert_identity, given.cert_oidc_issuer]:\n"
        "    sys.exit('[19:30:07] ERROR    Bundle message digest mismatch                  errors.py:42')\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")


@pytest.mark.parametrize(
    ("role", "option", "code"), [("maker", "--sigstore", 673), ("witness", "--sigstore-witness", 674)]
)
def test_a_sigstore_bundle_by_the_expected_identity_passes(run_folder, sigstore, role, option, code, ran, capsys):
    assert call(["validate", str(run_folder), option, "ci@example.org,https://issuer.example"]) == 1
    assert f"LP{code} error expected a sigstore bundle result.json." in capsys.readouterr().out
    assert call(["sign", str(run_folder), "--sigstore", "--as", role]) == 0
    assert call(["validate", str(run_folder), option, "ci@example.org,https://issuer.example"]) == 0
    assert f"LP{code} note result.json was signed by ci@example.org through sigstore" in capsys.readouterr().out
    out = ran(1, "validate", run_folder, option, "eve@example.org,https://issuer.example").out
    assert f"LP{code} error" in out
    assert "by eve@example.org, found another: Bundle message digest mismatch" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sign", "RUN"], "expected either --key FILE or --sigstore"),
        (["validate", "RUN", "--sigstore", "me@example.org"], "--sigstore: expected SUBJECT,ISSUER such as"),
        (
            ["sign", "RUN", "--sigstore"],
            "sigstore is not installed; install it with: pip install 'llmperf-verify[sigstore]'",
        ),
    ],
)
def test_what_sigstore_lacks_is_said(run_folder, words, message, monkeypatch, ran):
    monkeypatch.setenv("PATH", "")
    assert message in ran(2, *(run_folder if word == "RUN" else word for word in words)).err


def test_every_level_that_was_asked_for_is_checked_of_a_result_under_another_name(run_folder, keys, capsys):
    other = keys / "row" / "other.json"
    other.parent.mkdir()
    shutil.copy(run_folder / "result.json", other)
    words = ["--spot", "2", "--rerun", "3", "--signers", "makers", "--witnesses", "witnesss", "--challenges", "."]
    assert call(["validate", str(other.parent), *words]) == 1
    lines = [line.partition("LP67")[2] for line in capsys.readouterr().out.splitlines() if " LP67" in line]
    assert [line[:18] for line in lines] == [
        "3 error expected a",
        "4 error expected a",
        "6 error spot-check",
        "6 error challenged",
        "6 error rerun: exp",
    ]


def test_a_verification_that_is_replaced_is_named(run_folder, keys, ran, capsys):
    call(["sign", str(run_folder), "--key", "maker"])
    call(["validate", str(run_folder), "--signers", "makers", "--record"])
    capsys.readouterr()
    assert "replaces an earlier verification: consistent, signed" in ran(0, "validate", run_folder, "--record").err


@pytest.mark.parametrize(
    ("text", "found"),
    [("", "none"), ("garbage\n", "none"), ("ssh-ed25519 AAAA me@host\n", "a key without a name")],
)
def test_a_file_that_allows_no_signer_is_a_mistake_of_the_validator(run_folder, keys, text, found, capsys):
    (keys / "allowed").write_text(text)
    assert call(["validate", str(run_folder), "--signers", "allowed"]) == 2
    assert "--signers: allowed: expected a line `NAME KEYTYPE KEY`" in (err := capsys.readouterr().err)
    assert err.rstrip().endswith(f"found {found}")
    assert call(["validate", str(run_folder), "--witnesses", "nowhere"]) == 2


def test_programs_and_modules_in_the_working_directory_are_not_executed(run_folder, keys, monkeypatch, ran, capsys):
    """The working directory has a package `sigstore` and programs that call every signature valid."""
    call(["sign", str(run_folder), "--key", "witness"])
    (run_folder / "result.json.sigstore.json").write_text("{}")
    (run_folder / "sigstore").mkdir()
    info = run_folder / "sigstore-4.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sigstore\nVersion: 4.0\n")
    for name in ("__init__.py", "__main__.py"):
        (run_folder / "sigstore" / name).write_text("open('ran', 'w')\n")
    (run_folder / "bin").mkdir()
    for name in ("bin/sigstore", "bin/ssh-keygen"):
        (run_folder / name).write_text(f"#!/bin/sh\ntouch {run_folder}/ran\necho maker@example.org SHA256:00\n")
        (run_folder / name).chmod(0o755)
    monkeypatch.chdir(run_folder)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    monkeypatch.setenv("PYTHONPATH", ".")
    monkeypatch.setenv("PATH", f".:bin::{os.environ['PATH']}")
    assert call(["validate", ".", "--signers", str(keys / "makers")]) == 1
    assert f"expected a key of {keys / 'makers'} for llmperf, found SHA256:" in capsys.readouterr().out
    assert "LP673 error" in ran(1, "validate", ".", "--sigstore", "--help,https://issuer.example").out
    assert not (run_folder / "ran").exists()


def test_an_identity_that_looks_like_an_option_is_a_value(run_folder, sigstore, capsys):
    assert call(["sign", str(run_folder), "--sigstore"]) == 0
    assert call(["validate", str(run_folder), "--sigstore", "--offline,https://issuer.example"]) == 1
    assert "by --offline, found another: Bundle message digest mismatch" in capsys.readouterr().out
