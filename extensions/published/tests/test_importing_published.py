"""The published documents: what is read from them, and that their tables come back cell by cell."""

import json

import pytest
from click.testing import CliRunner
from llmperf.cli.main import cli
from llmperf.files import json_files
from llmperf.validation.document_files import found_documents
from llmperf_published.reading.document import import_document
from llmperf_published.reporting.markdown import published_markdown
from published_tables import DATA, KNOWN, SOURCES

DOCUMENTS, NAMES = list(SOURCES.values()), list(SOURCES)


@pytest.fixture(scope="module")
def imported():
    return {path.stem: import_document(path.read_bytes(), path.name, KNOWN) for path in DOCUMENTS}


def split(line):
    """Cells of a row as any reader of Markdown splits it, without knowing of the importer."""
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def tables(text):
    """Tables of a Markdown text: lists of cells, the delimiter rows left out."""
    result, current = [], []
    for line in [*text.splitlines(), ""]:
        if line.lstrip().startswith("|"):
            if set(line) - set("|:- "):
                current.append(split(line))
        elif current:
            result.append(current)
            current = []
    return result


@pytest.mark.parametrize("path", DOCUMENTS, ids=NAMES)
def test_tables_come_back_cell_by_cell(path, tmp_path):
    runner = CliRunner()
    assert runner.invoke(cli, ["import", str(path), "--out", str(tmp_path)]).exit_code == 0
    message = runner.invoke(cli, ["report", str(tmp_path), "--format", "markdown", "--lang", "zh"])
    assert message.exit_code == 0
    expected = tables(path.read_text(encoding="utf-8"))
    assert expected
    assert tables(message.stdout) == expected


@pytest.mark.parametrize("path", DOCUMENTS, ids=NAMES)
def test_what_is_shipped_is_what_is_imported(path, imported):
    shipped = (DATA / path.stem / "published.json").read_bytes()
    again = "llmperf import tests/published_documents/*.md --out src/llmperf_published/data --force"
    assert shipped == json_files.encode_pretty(imported[path.stem]), again


def test_what_is_shipped_is_valid_and_all_there_is():
    documents = found_documents([DATA], lambda kind: kind.name == "published")
    assert [read.path.parent.name for read in documents] == NAMES
    message = CliRunner().invoke(cli, ["validate", str(DATA), "--format", "json"])
    assert message.exit_code in (0, 1)  # findings may be deserved; what cannot be read may not
    assert not [item for file in json.loads(message.stdout) for item in file["findings"] if item["code"] < "LP100"]


def test_only_a_table_of_remarks_is_not_understood(imported):
    message = {name: [(item.line, item.reason) for item in published.unread] for name, published in imported.items()}
    assert [(name, *item) for name, lines in message.items() for item in lines] == [
        ("baichuan2_13b_zero_h800", 63, "expected a table of general metrics or of results; its cells are kept")
    ]


ROWS = {
    # name: for each row its case, the changed parts of the contract, token/p/s, loss and MFU
    "llama2_7b_megatron_deepspeed_a100": [
        ("llama2_7b_pretrain_megatron", {}, 2868, 4.65, 0.386),
        ("llama2_7b_pretrain_megatron", {"contract.global_batch": 1024}, 2908, 7.86, 0.391),
    ],
    "llama2_7b_lora_a100": [
        ("llama2_7b_lora", {}, 2788, 1.64, None),
        ("llama2_7b_lora", {"contract.global_batch": 4, "contract.precision": "fp16"}, 4017, 1.77, 0.361),
    ],
    "baichuan2_13b_zero_h800": [
        ("baichuan2_13b_pretrain_zero", {}, 2068, 2.06, 0.163),
        ("baichuan2_13b_pretrain_zero", {"contract.global_batch": 1024}, 2710, 2.07, 0.214),
    ],
    "llama2_7b_zero_r300": [
        ("llama2_7b_pretrain_zero", {"contract.global_batch": 96, "contract.seq_len": 512}, None, 5.27, None)
    ],
}


@pytest.mark.parametrize(("name", "expected"), ROWS.items())
def test_rows_have_a_case_changes_and_figures(name, expected, imported):
    rows = []
    for row in imported[name].rows:
        changed = {item.path: item.value for item in row.fix_hp if item.contract}
        assert row.variant == bool(changed)
        figures = (row.metrics.tokens_per_second_per_device, row.metrics.loss, row.metrics.mfu)
        rows.append((row.case, changed, *(figure.value for figure in figures)))
    assert rows == expected


def test_the_paddle_table(imported):
    rows = imported["llama1_paddle_a100"].rows
    assert [row.case for row in rows] == ["llama1_7b_pretrain_paddle"] * 8 + ["llama1_13b_pretrain_paddle"] * 4
    assert not any(row.variant for row in rows)
    throughput = [row.metrics.tokens_per_second_per_device.value for row in rows]
    assert throughput == [4267, 3888, 3650, 3722, 2744, 2163, 2160, 2232, 1707, 1605, 1489, 1597]
    assert {(row.batch.global_batch, row.batch.seq_len) for row in rows} == {(2048, 2048)}
    assert [len(row.metrics.memory.used) for row in rows] == [1, 1, 1, 4] * 3
    assert [row.group for row in rows] == ["LLaMA-7B"] * 8 + ["LLaMA-13B"] * 4
    assert [row.hardware.device_memory for row in rows] == [80] * 4 + [40] * 4 + [80] * 4
    assert {row.hardware.device_model for row in rows[4:8]} == {None}  # the environment names the one of 80 GB
    assert all(row.metrics.mfu is None and row.metrics.loss is None for row in rows)
    assert [row.parallelism.sharding_stage for row in rows] == [2, 1, 2, 1] * 3
    assert [row.batch.data_parallel for row in rows] == [8, 4, 4, 1] * 3


def test_environments_and_what_is_odd_in_them(imported):
    first = imported["llama2_7b_megatron_deepspeed_a100"]
    assert (first.rows[0].precision, first.rows[0].precision_text) == (None, "amp")  # which fixes no precision
    assert [row.metrics.aligned for row in first.rows] == [None, True]
    assert [item.heading for item in first.sections if item.kind == "software"] == ["H800软件环境"]
    assert first.entry("accelerator", "hardware").text == "NVIDIA_A100-SXM4-40GB"
    assert first.formula.numerator == ("micro_batch", "gradient_accumulation", "data_parallel")
    assert first.formula.denominator == ("tensor_parallel", "pipeline_parallel")
    assert [item.text for item in imported["llama2_7b_lora_a100"].datasets] == ["openwebtext", "samsum_dataset"]
    assert {item.device for item in imported["llama2_7b_zero_r300"].configuration_names} == {"A100"}
    assert [item.vendor for item in imported.values()] == ["nvidia", "nvidia", "nvidia", "nvidia", "kunlunxin"]
    assert imported["llama2_7b_zero_r300"].entry("precision").text == "fp16"


def test_in_english_only_words_change(imported):
    published = imported["llama2_7b_zero_r300"]
    first, second = tables(published_markdown(published, "en"))
    assert first[0] == ["item", "value", "remark"]
    assert first[2] == ["model", "deepspeed-llama2-7b", ""]
    assert second == [
        ["configuration", "fix_hp", "tokens/p/s", "loss", "mem", "MFU"],
        ["R300单机8卡（1x8）", "MPE=512 LBS=12", "", "5.27", "29/32", ""],
    ]
