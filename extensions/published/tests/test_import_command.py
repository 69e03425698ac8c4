"""`llmperf import` as a user calls it."""

import json
from pathlib import Path

import pytest
from llmperf.cli.main import call

FOLDER = Path(__file__).parent / "published_documents"
LORA, MEGATRON = FOLDER / "llama2_7b_lora_a100.md", FOLDER / "llama2_7b_megatron_deepspeed_a100.md"
BAICHUAN = FOLDER / "baichuan2_13b_zero_h800.md"
A100_PEAK = "peak of confidence datasheet: NVIDIA A100 Tensor Core GPU datasheet, column A100 40GB SXM"


def test_a_document_becomes_a_folder(tmp_path, ran):
    message = ran(0, "import", LORA, "--out", str(tmp_path / "new" / "out"))
    assert "llama2_7b_lora" in message.out
    assert message.err == ""
    written = tmp_path / "new" / "out" / "llama2_7b_lora_a100" / "published.json"
    document = json.loads(written.read_text(encoding="utf-8"))
    assert (document["schema"], document["provenance"], len(document["rows"])) == ("llmperf/published/1", "imported", 2)
    assert [path.name for path in written.parent.iterdir()] == ["published.json"]


def test_what_is_not_about_results_is_only_counted_in_a_long_document(tmp_path, capsys):
    around = "\n\n".join(f"## Chapter {number}\n\nwords" for number in range(30))
    results = "## Results\n\n| GPU | Kernels | TGS |\n|---|---|---|\n| H100/H200 (1x8) | TE | 3000 |\n"
    accuracies = "## Quality\n\n| Model | MMLU |\n|---|---|\n| llama2_7b | 44 |\n"
    document = tmp_path / "long.md"
    document.write_text(f"# Project\n\n{around}\n\n{results}\n{accuracies}", encoding="utf-8")
    assert call(["import", str(document), "--out", str(tmp_path / "out")]) == 0
    assert [line.removeprefix(f"{document}") for line in capsys.readouterr().err.splitlines()] == [
        ":125: expected a column that is known; its cells are kept: Kernels",
        ":127: expected the name of a device such as A100; which it was stays unknown: H100/H200 (1x8)",
        f": 33 more that are not about results, listed under unread in {tmp_path}/out/long/published.json",
    ]


def test_a_document_of_inference_is_refused_with_its_heading(tmp_path, capsys):
    document = tmp_path / "fast.md"
    document.write_text("## Serving speed\n\n| GPU | tokens/s |\n|---|---|\n| H100 | 3000 |\n", encoding="utf-8")
    assert call(["import", str(document), "--out", str(tmp_path / "out")]) == 2
    found = "found none among its tables (line 3: inference, below 'Serving speed')"
    assert f"expected a table of results, {found}" in capsys.readouterr().err


def test_json_for_programs(tmp_path, ran):
    first, second = json.loads(ran(0, "import", LORA, BAICHUAN, "--out", tmp_path, "--json").out)
    assert first["rows"][1] == {
        "line": 65, "case": "llama2_7b_lora", "vendor": "nvidia", "model": "llama2_7b", "variant": True,
        "verdict": "agrees", "why": ["MFU by the nominal convention, of 312 TFLOP/s", A100_PEAK],
    }  # fmt: skip
    assert second["unread"][0]["line"] == 63


def test_files_are_replaced_only_with_force(tmp_path, ran):
    assert call(["import", str(LORA), "--out", str(tmp_path)]) == 0
    written = tmp_path / "llama2_7b_lora_a100" / "published.json"
    before = written.read_bytes()
    written.write_text("mine")
    error = ran(2, "import", MEGATRON, LORA, "--out", tmp_path).err.splitlines()
    assert len(error) == 1
    assert "exists already; --force replaces it" in error[0]
    assert written.read_text() == "mine"
    assert not (tmp_path / "llama2_7b_megatron_deepspeed_a100").exists()
    assert call(["import", str(LORA), "--out", str(tmp_path), "--force"]) == 0
    assert written.read_bytes() == before


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file"),
        (b"", "found no table"),
        (b"# nothing here\n", "found no table"),
        (b"# t\n| a | b |\n|---|---|\n| 1 | 2 |\n", "none among its tables (line 2: columns 'a', 'b' not understood)"),
        (b"\xff\xff", "not UTF-8"),
        (b"\0", "zero byte"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(content, message, tmp_path, ran):
    source = tmp_path / "bad.md"
    if content is not None:
        source.write_bytes(content)
    error = ran(2, "import", LORA, source, "--out", tmp_path / "out").err
    assert len(error.splitlines()) == 1
    assert "bad.md" in error
    assert message in error
    assert not (tmp_path / "out").exists()


def test_links_and_folders_in_the_way_are_not_written_through(tmp_path, ran):
    target = tmp_path / "out" / "llama2_7b_lora_a100"
    target.mkdir(parents=True)
    (tmp_path / "victim").write_text("whole")
    (target / "published.json").symlink_to(tmp_path / "victim")
    assert "found a link or a folder" in ran(2, "import", LORA, "--out", tmp_path / "out", "--force").err
    assert (tmp_path / "victim").read_text() == "whole"


def test_a_file_in_the_way_of_one_document_leaves_none_written(tmp_path, ran):
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "README.md").write_bytes(LORA.read_bytes())
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "second").write_text("mine")
    sources = [str(tmp_path / name / "README.md") for name in ("first", "second")]
    assert "out/second: cannot create" in ran(2, "import", *sources, "--out", tmp_path / "out").err
    assert [path.name for path in (tmp_path / "out").rglob("*") if path.is_file()] == ["second"]


def test_an_output_that_is_a_file_is_refused(tmp_path, ran):
    (tmp_path / "out").write_text("x")
    assert len(ran(2, "import", LORA, "--out", tmp_path / "out").err.splitlines()) == 1


def test_control_characters_do_not_reach_the_terminal(tmp_path, ran):
    source = tmp_path / "odd.md"
    source.write_text(MEGATRON.read_text(encoding="utf-8") + "\n\n- \x1b[2Jodd\n\n## \x1b]0;title\n", encoding="utf-8")
    message = ran(0, "import", source, "--out", tmp_path / "out")
    assert "\x1b" not in message.out + message.err
    assert "expected a known heading" in message.err


def test_reports_of_imported_and_measured_results_side_by_side(tmp_path, ran, capsys, example, saved):
    assert call(["import", str(LORA), "--out", str(tmp_path)]) == 0
    saved(tmp_path / "run" / "result.json", example)
    capsys.readouterr()
    for wanted in ("terminal", "csv", "markdown", "json", "html"):
        message = ran(0, "report", tmp_path, "--format", wanted).out
        assert "4017" in message
        assert example["case"] in message


def test_a_broken_imported_document_is_reported(tmp_path, ran, capsys):
    assert call(["import", str(LORA), "--out", str(tmp_path)]) == 0
    written = tmp_path / "llama2_7b_lora_a100" / "published.json"
    document = json.loads(written.read_text())
    document["rows"][0]["variant"] = "yes"
    written.write_text(json.dumps(document))
    capsys.readouterr()
    assert "/rows/0/variant: LP012 error" in ran(1, "validate", tmp_path).out
    assert "/rows/0/variant" in ran(2, "report", tmp_path).err


@pytest.mark.parametrize(
    ("name", "folder"),
    [("..md", "document"), ("....md", "document"), ("-rf.md", "rf"), ("a b;c|d.md", "a-b-c-d"),
     ("x" * 200 + ".md", "x" * 100),
     (".hidden.md", "hidden"), ("结果.md", "结果"), ("a\nb.md", "a-b"), ("~root.md", "root"), ("$(id).md", "id")],
)  # fmt: skip
def test_no_name_of_a_document_leads_out_of_the_folder(name, folder, tmp_path):
    source = tmp_path / "in" / name
    source.parent.mkdir()
    source.write_bytes(LORA.read_bytes())
    assert call(["import", str(source), "--out", str(tmp_path / "out")]) == 0
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("published.json")] == [
        f"out/{folder}/published.json"
    ]


def test_a_readme_at_the_root_of_a_link_has_the_name_it_leads_to(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "README.md").write_bytes(LORA.read_bytes())
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert call(["import", str(tmp_path / "link" / "README.md"), "--out", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "real" / "published.json").is_file()


def test_a_name_with_control_characters_does_not_reach_the_terminal(tmp_path, ran):
    for words in (["import", "\x1b[2J\x9b.md", "--out", str(tmp_path)], ["validate", "\x1b[2J.json"], ["\x1b[2J"]):
        message = ran(2, *words)
        assert not {"\x1b", "\x9b"} & set(message.out + message.err)
