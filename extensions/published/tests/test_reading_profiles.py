"""Reading profiles: titles of columns, and what documents of other projects leave out."""

import json
import re
import shlex
import shutil
from collections import Counter
from pathlib import Path

import pytest
from llmperf.cli.main import call

GUIDE = (Path(__file__).parents[3] / "docs" / "importing.md").read_text(encoding="utf-8")
SECTION = GUIDE.partition("## A reading profile\n")[2].partition("\n## ")[0]
TABLES = Path(__file__).parent / "project_tables"
"""Figures of KempnerForge, prime-rl and torchtitan, each run once, with a profile of each table."""
FORGE, FORGE_PROFILE, PRIME, PRIME_PROFILE = (
    (TABLES / name).read_text()
    for name in ("kempner_configurations.md", "kempner_configurations.toml", "prime_rl_performance.csv",
                 "prime_rl_performance.toml")
)  # fmt: skip


@pytest.fixture
def profiled(imported):
    """Import a text by a profile."""

    def run(name, text, profile, *options):
        Path("p.toml").write_text(profile)
        return imported(text, "--profile", "p.toml", *options, name=name)

    return run


def test_the_guide_says_how_many_rows_of_projects_are_checked_with_ten_lines(profiled, capsys):
    outcomes, conventions = Counter(), Counter()
    for model in (*TABLES.glob("forge_*.toml"), TABLES / "intellect_3.toml"):
        shutil.copy(model, ".")
    for table in sorted(TABLES.glob("*.[mc]*")):
        profile = table.with_suffix(".toml").read_text()
        assert len(profile.splitlines()) <= 10
        code, rows, _ = profiled(table.name, table.read_text(), profile)
        assert code == 0
        rows = [row for row in rows if row["why"][0] != "its throughput is withheld"]  # nor an MFU
        outcomes.update(row["verdict"] for row in rows)
        conventions.update(row["why"][0].split()[3] for row in rows if row["verdict"] == "agrees")
        if rows[-1]["verdict"] == "agrees":
            assert any("stated by the importer, in p.toml" in why for why in rows[-1]["why"])
        call(["validate", "out"])
        assert "LP622" not in capsys.readouterr().out  # which imports again, without the profile
    assert f"**{outcomes['agrees'] + outcomes['wrong']} of {outcomes.total()}** rows" in SECTION
    assert f"{outcomes['agrees']} agree and {outcomes['wrong']} are wrong" in SECTION
    assert outcomes["not checked"] == 0
    assert min(conventions[name] for name in ("nominal", "palm", "full", "causal", "hidden")) >= 4


def test_flops_of_adapters_are_those_that_a_token_passes(profiled, capsys):
    """Of 30B-A3B, prime-rl counts the adapters of all 128 experts; of 4B without experts the same formula agrees."""
    table, profile = (TABLES / f"prime_rl_benchmarks.{kind}" for kind in ("md", "toml"))
    shutil.copy(TABLES / "intellect_3.toml", ".")
    code, rows, _ = profiled("t.md", table.read_text(), profile.read_text())
    by_line = {row["line"]: row for row in rows}
    assert (code, by_line[65]["verdict"], by_line[48]["verdict"]) == (0, "agrees", "wrong")
    assert by_line[65]["why"][0].startswith("MFU by the hidden convention, of 989.5 TFLOP/s")
    # 4 N + 6 x adapters + 12 L h S, from the sizes of Qwen3-4B: projections, head, adapters of rank 16
    attention, inner, layers = 2560 * (4096 + 2 * 1024) + 4096 * 2560, 3 * 2560 * 9728, 36
    weights = layers * (attention + inner) + 151936 * 2560
    adapters = 16 * layers * (2560 + 4096 + 2 * (2560 + 1024) + 4096 + 2560 + 3 * (2560 + 9728))
    flops = 4 * weights + 6 * adapters + 12 * layers * 2560 * 16384
    assert 52.38e3 / 8 * flops / 989.5e12 == pytest.approx(0.228, abs=5e-4)  # line 65
    call(["validate", "out"])
    lines = capsys.readouterr().out
    assert "LP311 error expected 14.8 % (36.77k / 8 x" in lines
    assert "found 17.0%" in lines


def test_a_shipped_profile_is_chosen_by_its_headings_or_its_name(profiled, ran, capsys):
    table = (TABLES / "torchtitan_performance.md").read_text()
    _, _, err = profiled("t.md", table, 'constants = { device = "A100-SXM4-80GB", precision = "bf16" }')
    assert "t.md:3: columns as in the profile torchtitan" in err
    speed = json.loads(Path("out/t/published.json").read_text())["rows"][0]["metrics"]["tokens_per_second_per_device"]
    assert speed["value"] == 2904
    assert call(["validate", "out"]) == 0
    ran(0, "import", "t.md", "--out", "out", "--force", "--profile", "torchtitan")
    assert call(["import", "t.md", "--out", "out", "--profile", "torchtitn"]) == 2
    expected = "--profile: unknown file or profile 'torchtitn'; did you mean 'torchtitan'?"
    assert expected in capsys.readouterr().err


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
        ("GPUs | Throughput - TF32 (tokens/s/GPU) | Throughput - mixed precision (tokens/s/GPU)", "8 | 1 800 | 3 600",
         'columns."Throughput - TF32 (tokens/s/GPU)" = "ignored"', "metrics.tokens_per_second_per_device",
         {"value": 3600}),
        ("Setup | GPUs | TGS", "H100 | 2x8 | 100", 'columns."Setup" = "configuration"', "hardware",
         {"device": "H100", "nodes": 2, "devices_per_node": 8}),
        ("Hardware | TGS", "2 nodes, 8 GPUs each | 100", 'rows."2 nodes, 8 GPUs each" = { devices = "2x8" }',
         "hardware", {"nodes": 2, "devices_per_node": 8}),
    ],
)  # fmt: skip
def test_a_profile_says_what_no_title_says(profiled, header, cells, profile, path, expected):
    rule = "|".join(["---"] * (header.count("|") + 1))
    code, _, _ = profiled("t.md", f"# Results\n\n| {header} |\n|{rule}|\n| {cells} |\n", profile)
    found = json.loads(Path("out/t/published.json").read_text())["rows"][0]
    for part in path.split("."):
        found = found[part]
    assert (code, {name: found[name] for name in expected}) == (0, expected)


def test_options_come_before_the_profile(profiled):
    code, rows, _ = profiled("prime.csv", PRIME, PRIME_PROFILE, "--sequence-length", "4k", "--device", "H200")
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
def test_a_faulty_profile_is_one_line(profiled, profile, expected):
    code, _, err = profiled("forge.md", FORGE, profile)
    assert (code, len(err.splitlines())) == (2, 1)
    assert expected in err


def test_a_column_that_no_table_has_and_a_text_that_no_row_has_are_named(profiled):
    profile = PRIME_PROFILE.replace('"peak"', '"top"') + '\n[rows]\n"odd | one" = { devices = 8 }\n'
    err = profiled("prime.csv", PRIME, profile)[2]
    assert "p.toml: no table has a column 'top'\np.toml: no row has 'odd | one'" in err


def test_csv_that_is_none_is_refused(profiled):
    code, _, err = profiled("prime.csv", 'a,b\n"1"2,3\n', PRIME_PROFILE)
    assert code == 2
    assert "prime.csv: expected CSV, found another text" in err


def test_the_guide_prints_what_it_says(tmp_path, monkeypatch, ran):
    monkeypatch.chdir(tmp_path)
    source, profile, block = (re.search(rf"```{kind}\n(.*?)```", SECTION, re.DOTALL)[1]
                              for kind in ("markdown", "toml", "console"))  # fmt: skip
    Path("results.md").write_text(source)
    Path("forge.toml").write_text(profile)
    for part in block.split("$ llmperf ")[1:]:
        command, _, expected = part.partition("\n")
        assert ran(0, *shlex.split(command)).out == expected


TEAM = """# Team

| Run | Hardware | tok/s | MFU (%) |
|---|---|---|---|
| base | 8 x H100 SXM | 74,312 | 48.3 |
| again | 8 x H100 SXM | 74,400 | 48.4 |
| doubled | 8 x H100 SXM | 74,312 | 96.6 |
| other peak | 4x NVIDIA RTX A6000 | 5,120 | 21.1 |
| adapters | 8 x H100 SXM | 100,000 | 46.1 |
"""
TEAM_PROFILE = """constants = { model = "llama3_8b", precision = "bf16", sequence_length = 4096 }
[rows]
"adapters" = { lora = { rank = 16 } }
"""


def test_a_wrong_mfu_is_explained_by_the_convention_of_its_table(profiled, capsys):
    code, rows, _ = profiled("team.md", TEAM, TEAM_PROFILE)
    assert (code, [row["verdict"] for row in rows]) == (0, ["agrees", "agrees", "wrong", "wrong", "agrees"])
    call(["validate", "out"])
    out = capsys.readouterr().out
    assert "expected 48.3 % (74,312 / 8 x 5.15e+10 / 9.894e+14, full), found 96.6; twice it" in out
    assert "full), found 21.1, which is right for the bf16 peak of NVIDIA A100-SXM4-40GB" in out
    call(["report", "out"])
    assert "45.1 % (printed: 48.3 %, full)" in capsys.readouterr().out  # the column is of the nominal convention


@pytest.mark.parametrize(
    ("lora", "expected"),
    [("rnk = 9", "unknown"), ("rank = 0", "at least 1"), ("rank = -16", "at least 1"), ('rank = "x"', "`int`")],
)
def test_adapters_of_a_profile_have_the_keys_of_a_case(profiled, lora, expected):
    code, _, err = profiled("team.md", TEAM, TEAM_PROFILE.replace("rank = 16", lora))
    assert (code, err.count("\n")) == (2, 1)
    assert "lora" in err
    assert expected in err


def test_adapters_on_a_projection_that_the_model_lacks_are_named(profiled):
    profile = TEAM_PROFILE.replace("rank = 16", 'rank = 16, target_modules = ["zz_proj"]')
    _, rows, _ = profiled("team.md", TEAM, profile)
    assert "unknown projection 'zz_proj'" in rows[4]["why"][0]


def test_a_throughput_in_flops_is_none_in_tokens(profiled):
    table = "# R\n\n| Hardware | Throughput (TFLOPs/GPU) | MFU (%) |\n|---|---|---|\n| 8 x H100 SXM | 400 | 40.4 |\n"
    code, rows, _ = profiled("t.md", table, TEAM_PROFILE.partition("[rows]")[0])
    (row,) = json.loads(Path("out/t/published.json").read_text())["rows"]
    assert (code, row["metrics"]["tokens_per_second_per_device"]) == (0, None)
    assert row["metrics"]["other"]["Throughput (TFLOPs/GPU)"]["value"] == 400
    assert rows[0]["why"][0] == "no throughput is printed"
