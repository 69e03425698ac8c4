"""`llmperf import` of folders, and the names of documents that would have the same."""

import json
import os
from pathlib import Path

from llmperf import encode_pretty
from llmperf.cli.main import call
from llmperf_published.reading import files

RESULTS = "# NVIDIA results\n\n| GPU | GPUs | token/p/s | MFU |\n|---|---|---|---|\n| A100 | 8 | 3000 | 40 % |\n"
UNCLEAR = "# t\n\n| sort | tokens/s at noon |\n|---|---|\n| a | 2 |\n"


def write(folder: Path, **texts: str) -> None:
    for name, text in texts.items():
        path = folder / name.replace("__", "/")
        path = path.with_name(path.name + ".md")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def written(out: Path) -> list[str]:
    return sorted(path.parent.relative_to(out).as_posix() for path in out.rglob("published.json"))


def test_each_document_of_a_folder_keeps_its_path(tmp_path, capsys):
    write(tmp_path / "in", nvidia__a100__README=RESULTS, nvidia__h100__README=RESULTS, other__a100__README=RESULTS,
          notes="nothing", other__tables=RESULTS)  # fmt: skip
    assert call(["import", str(tmp_path / "in"), "--out", str(tmp_path / "out")]) == 0
    assert written(tmp_path / "out") == ["nvidia/a100", "nvidia/h100", "other/a100", "other/tables"]
    assert capsys.readouterr().err.endswith("1 Markdown file without results\n")


def test_a_readme_at_the_top_of_a_folder_has_its_name(tmp_path):
    write(tmp_path / "mine", README=RESULTS)
    assert call(["import", str(tmp_path / "mine"), "--out", str(tmp_path / "out")]) == 0
    assert written(tmp_path / "out") == ["mine"]


def test_documents_of_a_folder_that_are_not_understood_are_listed_with_their_columns(tmp_path, capsys):
    write(tmp_path / "in", good=RESULTS, unclear=UNCLEAR)
    (tmp_path / "in" / "binary.md").write_bytes(b"| tokens/s |\n\xff\xff")
    os.mkfifo(tmp_path / "in" / "pipe.md")
    assert call(["import", str(tmp_path / "in"), "--out", str(tmp_path / "out")]) == 0
    skipped = [line for line in capsys.readouterr().err.splitlines() if line.startswith("skipped: ")]
    assert len(skipped) == 3
    assert "binary.md: not UTF-8" in skipped[0]
    assert "pipe.md: expected a regular file, found a pipe" in skipped[1]
    assert "line 3: columns 'sort', 'tokens/s at noon' not understood" in skipped[2]


def test_a_folder_without_results_is_refused(tmp_path, capsys):
    write(tmp_path / "in", notes="nothing", unclear=UNCLEAR)
    assert call(["import", str(tmp_path / "in"), "--out", str(tmp_path / "out")]) == 2
    assert "expected Markdown with a table of results, found none" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_accuracies_in_a_folder_are_not_taken_for_results_of_training(tmp_path):
    write(tmp_path / "in", good=RESULTS, scores="| model | MMLU | memory |\n|---|---|---|\n| a | 40 | tokens/s |\n")
    assert call(["import", str(tmp_path / "in"), "--out", str(tmp_path / "out")]) == 0
    assert written(tmp_path / "out") == ["good"]


def test_links_and_hidden_files_of_a_folder_are_not_read(tmp_path):
    write(tmp_path / "elsewhere", secret=RESULTS)
    write(tmp_path / "in", good=RESULTS, **{".hidden__text": RESULTS})
    (tmp_path / "in" / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "in" / "linked.md").symlink_to(tmp_path / "elsewhere" / "secret.md")
    assert call(["import", str(tmp_path / "in"), "--out", str(tmp_path / "out")]) == 0
    assert written(tmp_path / "out") == ["good"]


def test_documents_of_one_name_get_more_of_their_folders(tmp_path):
    write(tmp_path, x__a100__README=RESULTS, y__a100__README=RESULTS, x__table=RESULTS, y__table=RESULTS)
    sources = [tmp_path / name for name in ("x/a100/README.md", "y/a100/README.md", "x/table.md", "y/table.md")]
    assert call(["import", *map(str, sources), "--out", str(tmp_path / "out")]) == 0
    assert written(tmp_path / "out") == ["x-a100", "x-table", "y-a100", "y-table"]


def test_a_folder_and_a_file_of_its_name_are_two_documents(tmp_path):
    write(tmp_path / "in", a100__README=RESULTS, a100=RESULTS, a100__index=RESULTS)
    assert call(["import", str(tmp_path / "in"), "--out", str(tmp_path / "out")]) == 0
    assert written(tmp_path / "out") == ["a100", "a100-2", "a100-3"]


def test_a_document_that_is_named_twice_is_refused(tmp_path, capsys):
    write(tmp_path / "in", a100=RESULTS)
    assert call(["import", str(tmp_path / "in"), str(tmp_path / "in" / "a100.md"), "--out", str(tmp_path / "out")]) == 2
    assert "a100.md: named twice" in capsys.readouterr().err


def test_a_document_too_large_for_an_indented_file_can_be_read_again(tmp_path, monkeypatch, ran):
    source = tmp_path / "large.md"
    source.write_text(RESULTS, encoding="utf-8")
    assert call(["import", str(source), "--out", str(tmp_path / "out")]) == 0
    target = tmp_path / "out" / "large" / "published.json"
    before = json.loads(target.read_text())
    monkeypatch.setattr(files, "MAX_DOCUMENT_BYTES", len(encode_pretty(before)) - 1)
    assert call(["import", str(source), "--out", str(tmp_path / "out"), "--force"]) == 0
    assert len(target.read_text().splitlines()) == 1
    assert json.loads(target.read_text()) == before
    monkeypatch.setattr(files, "MAX_DOCUMENT_BYTES", 1000)
    assert "import it in parts" in ran(2, "import", source, "--out", tmp_path / "out", "--force").err


def test_no_folder_of_a_tree_leads_out_of_the_output(tmp_path):
    write(tmp_path / "in", **{"-x__ __README": RESULTS, "a..b__..": RESULTS, "a b__c;d": RESULTS})
    (tmp_path / "in" / "a b" / "x..md").write_text(RESULTS, encoding="utf-8")
    assert call(["import", str(tmp_path / "in"), "--out", str(tmp_path / "out")]) == 0
    assert written(tmp_path / "out") == ["a-b/c-d", "a-b/x", "x/document"]
