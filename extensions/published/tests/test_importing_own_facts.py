"""`llmperf import --peaks FILE --model FILE`: devices and models that no installed package has."""

import json
from pathlib import Path

import pytest
from llmperf.cli.main import call
from published_tables import MY_LLAMA

PEAKS = """[[device]]
model = "Acme A1"
aliases = ["A1", "Acme Max"]
memory_gib = 64
dense_tflops = { bf16 = 280 }
source = "Acme A1 datasheet, version 3"
date = "2026-01"
"""
RESULTS = """# Results of some cards

| Model | Accelerator | precision | seq_len | tokens/s/GPU | MFU |
|---|---|---|---|---|---|
| My Llama | Acme A1 | bf16 | 4096 | 2800 | 42.0% |
| My Llama | 8x Acme-Max | bf16 | 4096 | 2700 | |
| llama2_7b | A1 (1x8) | bf16 | 4096 | 2800 | 55.0% |
| llama2_7b | Acme A2 | bf16 | 4096 | 2900 | 57.0% |
"""
OWN_PEAK = "peak that the importer gave in my_peaks.toml: Acme A1 datasheet, version 3, 2026-01"
OWN_MODEL = "model that the importer gave in my_llama.toml: made for this test"


@pytest.fixture
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in (("my_peaks.toml", PEAKS), ("my_llama.toml", MY_LLAMA), ("results.md", RESULTS)):
        Path(name).write_text(text, encoding="utf-8")
    return tmp_path


def own_import(*more: str) -> int:
    return call(["import", "results.md", "--out", "out", "--peaks", "my_peaks.toml", "--model", "my_llama.toml", *more])


def refusal(capsys: pytest.CaptureFixture[str], peaks: str) -> str:
    Path("my_peaks.toml").write_text(peaks, encoding="utf-8")
    assert own_import() == 2
    return capsys.readouterr().err


def test_an_unknown_device_has_its_mfu_checked_against_the_users_peak(given, capsys):
    assert own_import("--json") == 0
    (document,) = json.loads(capsys.readouterr().out)
    assert [(row["model"], row["verdict"], row["why"]) for row in document["rows"]] == [
        ("my_llama", "agrees", ["MFU by the nominal convention, of 280 TFLOP/s", OWN_PEAK, OWN_MODEL]),
        ("my_llama", "not checked", ["its MFU is withheld", OWN_PEAK, OWN_MODEL]),
        ("llama2_7b", "wrong", ["LP311"]),
        ("llama2_7b", "not checked", [document["rows"][3]["why"][0]]),
    ]
    assert document["rows"][3]["why"][0].endswith("peaks of your own: `llmperf import --peaks FILE`")


def test_without_them_nothing_is_checked_and_nothing_is_added(given, ran):
    (document,) = json.loads(ran(0, "import", "results.md", "--out", "out", "--json").out)
    assert {row["verdict"] for row in document["rows"]} == {"not checked"}
    assert json.loads(Path("out/results/published.json").read_text())["own"] is None


@pytest.mark.slow
def test_validate_report_and_summary_say_whose_peak_it_was(given, ran, capsys):
    own_import()
    Path("my_peaks.toml").unlink()
    Path("my_llama.toml").unlink()
    capsys.readouterr()
    message = ran(1, "validate", "out")
    assert "expected 42.0 % (2800 x 4.2e+10 / 2.8e+14, nominal, peak of my_peaks.toml), found 55.0%" in message.out
    named = 'found "Acme A1: bf16 280 TFLOP/s (my_peaks.toml: Acme A1 datasheet, version 3, 2026-01)"'
    assert f"LP623 note expected a device that an installed package publishes, {named}" in message.out
    assert 'LP623 note expected a model of an installed package, found "my_llama (my_llama.toml' in message.out
    assert "LP622" not in message.out
    assert f"line 5: agrees: MFU by the nominal convention, of 280 TFLOP/s; {OWN_PEAK}; {OWN_MODEL}" in message.err
    closing = "; 1 of those that agree with facts of the importer"
    assert message.err.strip().endswith(closing)
    rows = ran(0, "report", "out", "--format", "csv").out.splitlines()
    assert [",own," in row for row in rows[1:]] == [True, True, False, False]
    report = ran(0, "report", "out").out
    assert "imported: agrees, peak of the importer" in report
    assert "40.5 % *" in report  # of the row without an MFU
    kinds = {(kind["model"], kind["device"]): kind for kind in json.loads(ran(0, "summary", "out", "--json").out)}
    assert kinds["my_llama", "Acme A1"]["rows"] == 2
    assert kinds["my_llama", "Acme A1"]["best_mfu_computed"] == pytest.approx(0.42)
    assert kinds["llama2_7b", "Acme A2"]["best_mfu_computed"] is None


def test_chinese_reports_say_so_too(given, ran):
    own_import()
    assert "；其中 1 行一致的数据使用导入者提供的事实" in ran(0, "report", "out", "--lang", "zh").out


def test_a_device_or_model_that_no_row_is_on_is_named(given, capsys):
    Path("results.md").write_text(RESULTS.replace("A1", "A9").replace("Acme-Max", "A9").replace("My Llama", "Other"))
    assert own_import() == 0
    errors = capsys.readouterr().err
    assert "my_peaks.toml: no row is on Acme A1 or A1 or Acme Max" in errors
    assert "my_llama.toml: no row is on my_llama or My Llama" in errors


def test_a_device_that_a_plugin_publishes_is_refused(given, capsys):
    known = PEAKS.replace('"Acme Max"', '"A100-SXM-80GB"')
    expected = "device[0] (Acme A1): expected a device that no installed package has, found 'A100-SXM-80GB'"
    assert f"{expected}, whose peaks the plugin of vendor nvidia publishes" in refusal(capsys, known)
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("was", "instead", "expected"),
    [("date =", "day =", "device[0]"), ("bf16 = 280", "bf17 = 280", "bf17"), ("280", "-1", "dense_tflops"),
     (PEAKS, "", "expected [[device]] tables, found none"), ("[[device]]", "[[devices]]", "'devices'")],
)  # fmt: skip
def test_a_faulty_file_of_peaks_is_refused_in_one_line(given, capsys, was, instead, expected):
    message = refusal(capsys, PEAKS.replace(was, instead))
    assert len(message.splitlines()) == 1
    assert message.startswith("llmperf: my_peaks.toml: ")
    assert expected in message


@pytest.mark.parametrize(("name", "expected"), [("llama2_7b.toml", "is the name of a shipped model"),
                                                ("my_llama.txt", "that ends in .toml")])  # fmt: skip
def test_a_model_of_the_library_is_refused(given, ran, name, expected):
    Path(name).write_text(MY_LLAMA, encoding="utf-8")
    assert expected in ran(2, "import", "results.md", "--out", "out", "--model", name).err


def test_a_peak_that_was_added_after_the_import_is_found(given, ran, capsys):
    call(["import", "results.md", "--out", "out"])
    path = Path("out/results/published.json")
    document = json.loads(path.read_text())
    own_import("--force")
    own = json.loads(path.read_text())["own"]
    path.write_text(json.dumps(document | {"own": own}))
    capsys.readouterr()
    assert "LP622" in ran(1, "validate", "out").out
