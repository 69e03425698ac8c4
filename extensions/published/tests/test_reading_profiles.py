"""Reading profiles: titles of columns, and what documents of other projects leave out."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from llmperf.cli.main import call

GUIDE = (Path(__file__).parents[3] / "docs" / "importing.md").read_text(encoding="utf-8")
SECTION = GUIDE.partition("## A reading profile\n")[2].partition("\n## ")[0]
FORGE = """# Config Validation Report
**Hardware**: 8 nodes, 4x NVIDIA H200 (141 GB) per node
| Config | Status | Steps | MFU (%) | tok/s | Mem/GPU | Loss |
|---|---|---|---|---|---|---|
| `7b.toml` | **PASS** | 10 | 53.7 | 38,858 | 81.0 GB | 12.45 |
| `7b_12gpu_tp4.toml` | **PASS** | 10 | 30.9 | 67,045 | 30.4 GB | 11.75 |
| `7b_32gpu_fsdp.toml` | **PASS** | 10 | 51.3 | 297,384 | 51.3 GB | 13.56 |
| `70b_32gpu_tp4.toml` | **PASS** | 20 | 25.6 | 17,769 | 93.2 GB | 11.75 |
| `70b_32gpu_tp4_pp4.toml` | **PASS** | 20 | 11.0 | 7,641 | 51.0 GB | 11.75 |
"""
"""Figures of KempnerForge's validation report (2026-04-06), shortened."""
FORGE_PROFILE = """[constants]
device = "H200"
devices = "8x4"
precision = "bf16"
sequence_length = 4096
model = "llama3_70b"
[rows]
"7b.toml" = { model = "llama3_8b", devices = "1x4" }
"7b_12gpu_tp4.toml" = { model = "llama3_8b", devices = "3x4" }
"7b_32gpu_fsdp.toml" = { model = "llama3_8b" }
"""
PRIME = """run,s/step,tokens/s/GPU,MFU,peak
torchtitan,5.04,3253,40.7%,144 GiB
"prime-rl, torch dispatch",4.39,3732,46.6%,141 GiB
"prime-rl, Mega MoE",4.10,3998,49.9%,141 GiB
"prime-rl, Mega MoE, selective",3.93,4168,52.0%,203 GiB
"""
"""Figures of prime-rl's docs/performance.md (2026-10-02), Qwen3-235B-A22B on 4 nodes of 8 B300; MFU by torchtitan."""
PRIME_PROFILE = """[columns]
"run" = "ignored"
"peak" = "memory"
[constants]
device = "B300"
devices = "4x8"
model = "qwen3_235b_a22b"
precision = "bf16"
sequence_length = "16k"
"""
TITAN = """# Performance
## Llama 3 performance numbers
| Model size | Batch size | Activation checkpointing | WPS | MFU |
| --- | --- | --- | --- | --- |
| 8B | 1 | selective layer | 2904 | 56.8% |
| 8B | 1 | selective op | 2973 | 58.2% |
| 70B | 1 | full | 331 | 51.7% |
## Llama 2 performance numbers
| Model size | Batch size | Activation checkpointing | WPS | MFU |
| --- | --- | --- | --- | --- |
| 13B | 2 | no | 2162 | 61.1%\t|
| 13B | 2 | selective layer | 1914 | 54.1% |
| 13B | 2 | selective op | 1904 | 53.8% |
| 70B | 1[^1] | selective op | 355 | 50.8% |
| 70B | 2 | full | 353 | 50.5% |
"""
"""Figures of torchtitan's docs/performance.md (2024), FSDP2 on 64 A100 of 80 GB."""
TITAN_PROFILE = """columns."WPS" = "tokens/s/device"
columns."Activation checkpointing" = "ignored"
constants = { device = "A100-SXM4-80GB", devices = "8x8", precision = "bf16", sequence_length = "8k" }
[rows]
"8B" = { model = "llama3_8b" }
"13B" = { model = "llama2_13b", sequence_length = "4k" }
"70B" = { model = "llama3_70b" }
"Llama 2 performance numbers | 70B" = { model = "llama2_70b", sequence_length = "4k" }
"""


@pytest.fixture
def imported(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def run(name: str, text: str, profile: str, *options: str):
        Path(name).write_text(text)
        Path("p.toml").write_text(profile)
        code = call(["import", name, "--out", "out", "--force", "--json", "--profile", "p.toml", *options])
        out, err = capsys.readouterr()
        return code, json.loads(out)[0]["rows"] if out else [], err

    return run


@pytest.mark.parametrize(
    ("name", "text", "profile", "expected"),
    [
        ("forge.md", FORGE, FORGE_PROFILE, ["wrong", "wrong", "agrees", "agrees", "agrees"]),
        ("titan.md", TITAN, TITAN_PROFILE, ["agrees"] * 8),
        ("prime.csv", PRIME, PRIME_PROFILE, ["wrong", "agrees", "agrees", "agrees"]),
    ],
)
def test_every_mfu_is_checked_with_ten_lines(imported, capsys, name, text, profile, expected):
    assert len(profile.splitlines()) <= 10
    code, rows, err = imported(name, text, profile)
    assert (code, [row["verdict"] for row in rows]) == (0, expected)
    assert any("stated by the importer, in p.toml" in why for why in rows[-1]["why"])
    assert "'run'" not in err
    call(["validate", "out"])
    assert "LP622" not in capsys.readouterr().out  # which imports again, without the profile


@pytest.mark.parametrize(
    ("header", "cells", "profile", "path", "expected"),
    [
        ("Config | tokens/s/GPU", "TP=8, PP=4, DP=2 | 3800", 'columns."Config" = "parallel"', "parallelism",
         {"tensor_parallel": 8, "pipeline_parallel": 4, "data_parallel": 2}),
        ("Configuration | GPUs | TGS", "tp2, ep8, pp32, mbs=4 | 256 | 1500", 'columns."Configuration" = "parallel"',
         "parallelism", {"tensor_parallel": 2, "pipeline_parallel": 32, "other": {"EP": 8}}),
        ("config | TGS", "X1 (2x8) | 100", 'columns."config" = "configuration"', "hardware",
         {"device": "X1", "nodes": 2, "devices_per_node": 8}),
        ("GPUs | SeqLen (K) | TGS", "8 | 8k | 3314", 'columns."SeqLen (K)" = "seq_len"', "batch", {"seq_len": 8192}),
        ("Hardware | TGS", "2 nodes, 8 GPUs each | 100", 'rows."2 nodes, 8 GPUs each" = { devices = "2x8" }',
         "hardware", {"nodes": 2, "devices_per_node": 8}),
    ],
)  # fmt: skip
def test_a_profile_says_what_no_title_says(imported, header, cells, profile, path, expected):
    rule = "|".join(["---"] * (header.count("|") + 1))
    code, _, _ = imported("t.md", f"# Results\n\n| {header} |\n|{rule}|\n| {cells} |\n", profile)
    found = json.loads(Path("out/t/published.json").read_text())["rows"][0][path]
    assert (code, {name: found[name] for name in expected}) == (0, expected)


def test_options_come_before_the_profile(imported):
    code, rows, _ = imported("prime.csv", PRIME, PRIME_PROFILE, "--sequence-length", "4k", "--device", "H200")
    assert (code, rows[1]["verdict"]) == (0, "wrong")
    said = "in p.toml and by --device H200 --sequence-length 4k"
    document = json.loads(Path("out/prime/published.json").read_text())
    assert document["own"]["stated"]["by"] == f"the importer, {said}"
    assert document["rows"][0]["stated"] == ["columns", "device", "devices", "sequence length", "model", "precision"]
    assert document["tables"][0]["columns"][4] == {**document["tables"][0]["columns"][4], "header": "peak"}


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        ('[column]\nx = "mfu"', "p.toml: unknown table 'column'; did you mean 'columns'?"),
        ('[columns]\nMFU = "mfuu"', "p.toml: columns.MFU: unknown title 'mfuu'; did you mean 'mfu'?"),
        ('[constants]\ndevise = "H200"', "p.toml: constants: unknown statement 'devise'; did you mean 'device'?"),
        ('[constants]\ndevice = "H2000"', "p.toml: constants.device: unknown device 'H2000'; did you mean"),
        ("[constants]\ndevices = [8]", "p.toml: constants.devices: expected text or a number, found [8]"),
        ("[rows]\nx = 1", "p.toml: rows.x: expected a table, found 1"),
        ('[rows]\nx = { model = "llama9" }', "p.toml: rows.x.model: unknown model 'llama9'"),
        ('[rows]\nx = { vendor = "nvidia" }', "p.toml: rows.x: expected the vendor under constants, found it here"),
    ],
)
def test_a_faulty_profile_is_one_line(imported, profile, expected):
    code, _, err = imported("forge.md", FORGE, profile)
    assert (code, len(err.splitlines())) == (2, 1)
    assert expected in err


def test_a_column_that_no_table_has_is_named(imported):
    err = imported("prime.csv", PRIME, PRIME_PROFILE.replace('"peak"', '"top"'))[2]
    assert "p.toml: no table has a column 'top'" in err


def test_csv_that_is_none_is_refused(imported):
    code, _, err = imported("prime.csv", 'a,b\n"1"2,3\n', PRIME_PROFILE)
    assert code == 2
    assert "prime.csv: expected CSV, found another text" in err


def test_the_guide_prints_what_it_says(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    source, profile, block = (re.search(rf"```{kind}\n(.*?)```", SECTION, re.DOTALL)[1]
                              for kind in ("markdown", "toml", "console"))  # fmt: skip
    Path("results.md").write_text(source)
    Path("forge.toml").write_text(profile)
    for part in block.split("$ llmperf ")[1:]:
        command, _, expected = part.partition("\n")
        assert call(shlex.split(command)) == 0
        assert capsys.readouterr().out == expected
