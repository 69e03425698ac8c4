"""The published documents get the findings they deserve and no other, and each rule catches its fault in them."""

import json
import re
from functools import cache
from pathlib import Path

import published_tables
import pytest
from llmperf.cli.validate import text
from llmperf.files import json_files
from llmperf.validation.catalogue import open_catalogue
from llmperf.validation.check import Validator, findings
from llmperf.validation.document_files import read_document
from llmperf_compare.finding_formats import github, sarif
from llmperf_published.types.document import Published
from published_tables import DATA, read

ROOT = Path(__file__).parents[3]
SOURCES = {name: path.read_text() for name, path in published_tables.SOURCES.items()}
MEGATRON, ZERO, LORA = "llama2_7b_megatron_deepspeed_a100", "baichuan2_13b_zero_h800", "llama2_7b_lora_a100"
R300, PADDLE = "llama2_7b_zero_r300", "llama1_paddle_a100"

FOUND = {
    MEGATRON: [
        ("LP113", "/formula", "it holds with the world size 8 for data_parallel"),
        ("LP611", "/sections/1/heading", "found H800"),
        ("LP616", "/rows/1/metrics/aligned", ""),
    ],
    LORA: [
        ("LP214", "/rows/0/metrics/mfu", "found '/'"),
        ("LP314", "/rows/0/metrics/tokens_per_second_per_device", "TF32 could"),
        ("LP614", "/sections", "the training framework's version"),
        ("LP615", "/datasets/1", 'expected "openwebtext", as in line 52, found "samsum_dataset"'),
    ],
    ZERO: [("LP617", "/unread/0", "line 63")],
    R300: [
        ("LP214", "/rows/0/metrics/tokens_per_second_per_device", "an empty cell"),
        ("LP214", "/rows/0/metrics/mfu", "an empty cell"),
        ("LP611", "/configuration_names/0", "found A100"),
    ],
    PADDLE: [("LP613", "/rows/4/hardware/device_memory", "found 40 GB, line 54; and 3 more of this kind")],
}
"""Code, place and words of every finding. All of `PADDLE`'s arithmetic holds, as does all of `ZERO`."""


@cache
def as_imported(name):
    """What is found in a document as it was published."""
    return told(read(SOURCES[name]))


def told(published):
    return [(one.code, one.path, one.message) for one in findings("published", published)]


def test_all_documents_are_here():
    assert SOURCES.keys() == FOUND.keys()
    assert {path.name for path in (DATA).iterdir() if path.is_dir()} == SOURCES.keys()


@pytest.mark.parametrize("name", FOUND)
def test_a_published_document_gets_the_findings_it_deserves_and_no_other(name):
    found = told(
        read_document(
            open_catalogue().kinds["published"],
            DATA / name / "published.json",
        )
    )
    assert [(code, path) for code, path, _ in found] == [(code, path) for code, path, _ in FOUND[name]]
    for (_, _, message), (_, _, words) in zip(found, FOUND[name], strict=True):
        assert words in message
    assert told(read(SOURCES[name])) == found


EXAMPLE = (ROOT / "docs" / "rules" / "example.md").read_text()
SUM = "5.68 * 4096 / 8 = 2908 tokens/s"


def codes_of(pieces, text=EXAMPLE):
    """Codes of the findings in a text, by default the rules' example, with other pieces in place of some."""
    for piece, instead in pieces.items():
        assert text.count(piece) == 1, piece
        text = text.replace(piece, instead)
    return {code for code, _, _ in told(read(text))}


@pytest.mark.parametrize(
    ("piece", "instead", "codes"),
    [
        ("32/40", "32768/40960 MiB", set()),
        ("32/40", "39768/40960 MiB", set()),
        ("32/40", "41768/40960 MiB", {"LP411"}),
        ("38.6%", "38.6% (bf16)", set()),
        ("38.6%", "98.6% (bf16)", {"LP311"}),
        ("38.6%", "98.6%¹", {"LP311"}),
        ("| 2868 |", "| 2.868k |", set()),
        ("| 2868 |", "| 0.2868万 |", set()),
        ("| 2868 |", "| 46.7k |", {"LP311", "LP313"}),
        (SUM, "4096 * 5.68 / 8 = 2908", set()),
        (SUM, "5.68 seq/s * 4096 = 23265 / 8 = 2908", set()),
        (SUM, "2048 * 11.36 / 8 = 2908", {"LP212"}),
        (SUM, "(11.36*2048)/8 = 2908", {"LP212"}),
        (SUM, "11.36 seq/s * 2048 / 8 = 2908", {"LP212"}),
        (SUM, "1.36*4096=23265/8=2908", {"LP211"}),
        (SUM, "5.68 apples * 4096 / 8 = 2908", {"LP617"}),
    ],
)
def test_figures_in_other_words(piece, instead, codes):
    assert codes_of({piece: instead}) == codes


def with_column(header, first, second="/"):
    """A column more in the example's table of results."""
    return {
        "| parallel | fix_hp": f"| parallel | {header} | fix_hp",
        "| TP4PP1DP2 |": f"| TP4PP1DP2 | {first} |",
        "| TP2PP2DP2 |": f"| TP2PP2DP2 | {second} |",
        "| ------------- | ------ |": "| ------------- | --- | ------ |",
    }


FORMULA = "4. global_batchsize is always micro_batchsize\\*gradient_accumulate_steps\\*data_parallel_size, GBS"


@pytest.mark.parametrize(
    ("pieces", "codes"),
    [
        (with_column("GBS", "4096"), {"LP112"}),
        (with_column("GBS", "64", "1024"), set()),
        ({FORMULA: "4. global_batchsize, GBS, 999 by default"}, {"LP112"}),
        ({FORMULA: "4. global_batchsize, GBS, 64 by default"}, set()),
        ({"(GBS=1024=4M tokens)": "(gbs:2048)"}, {"LP112"}),
        (with_column("Nodes", "1", "1"), set()),
        (with_column("Nodes", "2", "1"), {"LP111"}),
        (with_column("GPUs", "8", "8"), set()),
        (with_column("cards", "8", "16"), {"LP111"}),
        (with_column("卡数", "16", "8"), {"LP111"}),
        (with_column("seq_len", "4K", "4096"), set()),
        (with_column("seq_len", "8k"), set()),
        (with_column("TP", "8"), {"LP111"}),
        (with_column("TP", "auto"), {"LP617"}),
        ({"| / | 2868": "| TP=8 | 2868"}, {"LP111"}),
        ({"| / | 2868": "| TP=4 | 2868"}, set()),
        ({"MPE, default is 4096": "MPE, default is 4k"}, set()),
    ],
)
def test_settings_in_other_words(pieces, codes):
    assert codes_of(pieces) == codes


def called(precision="bf16", model="llama2_7b", mfu="38.6%"):
    """The example with another precision, model and MFU of the first row."""
    return {
        "| Precision | bf16 | |": f"| Precision | {precision} | |",
        "| Model | llama2_7b | |": f"| Model | {model} | |",
        "| 38.6% |": f"| {mfu} |",
    }


@pytest.mark.parametrize(
    ("pieces", "codes"),
    [
        (called("fp8"), set()),
        (called("fp8", mfu="98.6%"), {"LP311"}),
        (called("int8", mfu="98.6%"), {"LP311"}),
        (called("bf16+fp8", mfu="98.6%"), {"LP311"}),
        (called("fp16/bf16"), set()),
        (called("fp16/bf16", mfu="98.6%"), {"LP311"}),
        (called(model="llama2 7b chat"), set()),
        (called(model="llama2 7b chat", mfu="98.6%"), {"LP311"}),
        (called(model="LLaMA-2 (7B)", mfu="98.6%"), {"LP311"}),
        (called(model="somebody's 7b", mfu="98.6%"), set()),
        (called(mfu=">59%"), {"LP214", "LP617"}),
    ],
)
def test_no_check_goes_off_in_silence(pieces, codes):
    assert codes_of(pieces) == codes


def on(vendor, accelerator, device):
    """The example on another vendor's accelerator."""
    text = EXAMPLE.replace("NVIDIA DGX A100", "X").replace("### NVIDIA", f"### {vendor}")
    text = text.replace("NVIDIA A100-SXM4-40GB", accelerator).replace("nvidia A100", device)
    return text.replace("config_A100x1x8.py", "its script").replace("/40 |", "/192 |")


def test_an_accelerator_s_memory_may_stand_in_its_name():
    rows = re.sub(r"A100 single node|config_TP\dPP\dDP2A10040Gx1x8", "single node", on("AMD", "{}", "MI300X"))
    assert codes_of({}, rows.replace("{}", "AMD Instinct MI300X 192GB")) == {"LP311"}
    assert codes_of({}, rows.replace("{}", "AMD Instinct MI999X 192GB")) == {"LP903"}


def test_a_row_of_another_vendor_s_device_is_an_error():
    found = told(read(on("Kunlunxin XPU", "R300", "R300")))
    places = [f"/rows/{row}/{path}" for row in (0, 1) for path in ("hardware/device", "configuration_name/device")]
    assert [path for code, path, _ in found if code == "LP612"] == places
    assert "LP612" not in codes_of({}, on("Kunlunxin XPU", "R300", "R300").replace("A100", "R300"))


def replaced(pattern, instead, count=1):
    """A fault put into a text; None where the text has no place for it."""

    def fault(text):
        changed = re.sub(pattern, instead, text, count=count)
        return changed if changed != text else None

    return fault


ACCELERATOR = r"(- 加速卡型号: *)\S.*"
SPEED = r"(\| *)(\d{4})( *\| *\d\.\d\d)"
"""The throughput cell before a loss."""

GRID = r"（(1x8|2x8|1x1)(?:\*80G)?）"


def older_device(text):
    """All of it on a V100 in bf16, which a V100 has not."""
    if "nvidia" not in text.lower():
        return None
    changed = re.sub(ACCELERATOR, r"\1NVIDIA Tesla V100-SXM2-32GB", text)
    changed = re.sub(r"A100单机|H800 2机", "V100 2机", changed).replace("*80G", "").replace("*40G", "")
    return re.sub(r"fp16|fp32|amp\b", "bf16", changed)


def default_set_again(text):
    """The first row sets what is the default already."""
    default = re.search(r"gradient_accumulate_steps.*?默认为(\d+)", text)
    return replaced(r"\| */( *\| *\d{4} *\|)", rf"| GAS={default[1]} \1")(text) if default else None


FAULTS = {
    "LP111": [
        replaced(r"(A100|H800|R300)( ?)(?:单机8卡|2机16卡)", r"\1\2单机4卡"),
        replaced(r"TP4PP1DP2", "TP4PP1DP4"),
    ],
    "LP112": [
        replaced(r"GBS=1024=4M", "GBS=4096=4M"),
        replaced(r"=4M tokens", "=16M tokens"),
        replaced(r"(globalbs=)2M", r"\g<1>4M"),
        replaced(r"accumulate=64", "accumulate=32"),
    ],
    "LP113": [replaced(r"(恒等于local_batchsize)", r"\1*seqlength")],
    "LP114": [replaced(r"config_TP2PP4", "config_TP4PP2"), replaced(r"SH2SP8A10080G", "SH2SP8A10040G")],
    "LP115": [replaced(r"sharding_degree=8", "sharding_degree=3")],
    "LP211": [
        replaced(r"= 4267", "= 4367"),
        replaced(r"16\.67 \*", "17.67 *"),
        replaced(r"16\.67 \* 2048 / 8 = 4267", "6.67 * 2048 = 34140 / 8 = 4267"),
        replaced(r"16\.67 \* 2048", "17.67 seq/s * 2048"),
    ],
    "LP212": [
        replaced(r"16\.67 \* 2048 / 8 = 4267", "16.67 * 4096 / 16 = 4267"),
        replaced(r"16\.67 \* 2048 / 8 = 4267", "2048 * 8.335 / 4 = 4267"),
        replaced(r"16\.67 \* 2048 / 8 = 4267", "(8.335*2048)/4 = 4267"),
        replaced(r"16\.67 \* 2048 / 8 = 4267", "8.335 seq/s * 2048 / 4 = 4267"),
    ],
    "LP214": [replaced(SPEED, r"\1/\3"), replaced(r"16\.67 \* 2048 / 8 = 4267 tokens/s", "-")],
    "LP215": [replaced(r"\| *(?:tokens?/p/s|throughput) *\|", "| comment |", count=0)],
    "LP216": [replaced(SPEED, r"\g<1>-\2\3"), replaced(SPEED, r"\g<1>0\3")],
    "LP217": [replaced(r"(\d\d\.\d)%( *\|)", r"\1\2", count=0)],
    "LP311": [
        replaced(r"(\d)(\d)\.(\d)% *\|", r"0.\1\2\3% |"),
        replaced(r"(\d\d)\.(\d)% *\|", r"\1\2% |"),
        replaced(r"(\d)(\d)\.(\d)% *\|", r"\2\1.\3% |"),
    ],
    "LP313": [replaced(SPEED, r"\g<1>\g<2>0\3"), replaced(r"16\.67 \* 2048 / 8 = 4267", "166.7 * 2048 / 8 = 42675")],
    "LP411": [
        replaced(r"(\d\d)(?:\.\d)?/(32|40|80)", r"9\1/\2"),
        replaced(r"/(32|40|80)( *\|)", r"/24\2"),
        replaced(r"70\.09 \* 8 GB", "170.09 * 8 GB"),
        replaced(GRID, r"（\1*24G）"),
    ],
    "LP412": [replaced(r"46\.80\\\*2 \+ ", ""), replaced(r"70\.09 \* 8 GB", "70.09 * 4 GB")],
    "LP413": [older_device, lambda text: text.replace("fp16", "bf16") if "昆仑芯" in text else None],
    "LP508": [replaced(r"(\| *\d{4} *\| *)\d\.\d\d( *\|)", r"\1nan\2"), replaced(r"\d\d\.\d% *\|", "inf |")],
    "LP511": [replaced(r"(\d{4} *\| *|\| *)(\d)\.(\d\d)( *\|)", r"\1\2\3.0\4")],
    "LP611": [
        replaced(r"- ##### (?:H800|)软件环境", "- ##### H20软件环境"),
        replaced(r"config_(?:A100|H800)x", "config_B200x"),
    ],
    "LP612": [replaced(ACCELERATOR, r"\1AMD Instinct MI300X"), replaced(r"(机器型号: *).*", r"\1Ascend Atlas 800")],
    "LP613": [lambda text: re.sub(GRID, r"（\1*24G）", text, count=1) if re.search(r"[48]0GB", text) else None],
    "LP614": [replaced(r" *- *加速卡驱动版本.*\n", ""), replaced(r" *- *OS版本.*\n", "")],
    "LP615": [lambda text: text + "\n\n注：训练数据集为wikipedia_dump\n"],
    "LP617": [replaced(r"(\* 性能指标)", "| a | b |\n|---|---|\n| 1 | 2 |\n\n\\1")],
    "LP618": [replaced(r"(gradient_accumulate_steps.*?默认为)\d+", r"\g<1>3")],
    "LP619": [default_set_again, replaced("MPE=512 LBS=12", "LBS=1")],
    "LP903": [replaced(r"(?i)nvidia_?|昆仑芯|[AHR][138]00", "", count=0)],
}
"""What is known to go wrong in such documents, put into those that have a place for it."""

CASES = [
    pytest.param(code, name, number, id=f"{code}-{name}-{number}")
    for code, faults in FAULTS.items()
    for number, fault in enumerate(faults)
    for name, text in SOURCES.items()
    if fault(text) is not None
]


@pytest.mark.parametrize(("code", "name", "number"), CASES)
def test_a_fault_put_into_a_published_document_is_found_by_its_rule(code, name, number):
    before = as_imported(name)
    after = told(read(FAULTS[code][number](SOURCES[name])))
    places = [(code, words) for code, _, words in before]
    fresh = [one for one in after if (one[0], one[2]) not in places]
    assert code in [one[0] for one in fresh], after
    assert "LP622" not in [one[0] for one in after], "what was just imported is what its text gives"


CHANGE = {"path": "tuning.micro_batch", "case_value": 1, "value": 999, "origin": "fix_hp"}
IMPORTED_FAULTS = {
    "LP621": {"/rows/0/variant": lambda value: not value},
    "LP622": {
        "/rows/0/metrics/memory/text": lambda value: value + "0",
        "/rows/0/line": lambda value: value + 1,
        "/rows/0/model": lambda value: None,
        "/rows/0/framework": lambda value: "paddle" if value == "lora" else "lora",
        "/rows/0/case": lambda value: None if value else "llama2_7b_lora",
        "/rows/0/fix_hp": lambda value: () if value else [CHANGE],
        "/vendor": lambda value: None,
        "/defaults/micro_batch": lambda value: (value or 0) + 7,
        "/strategy/tensor_parallel": lambda value: (value or 0) + 7,
        "/sections/0/entries/0/name": lambda value: "remark",
        "/tables/1/columns/0/name": lambda value: "remark",
        "/tables": lambda value: [],
        "/rows": lambda value: [],
    },
    "LP623": {
        "/own": lambda value: {
            "devices": [
                {
                    "file": "mine.toml",
                    "entry": {"model": "A1", "dense_tflops": {"bf16": 200}, "source": "datasheet", "date": "2026-01"},
                }
            ]
        },
    },
}


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize(("code", "pointer"), [(code, one) for code, all_ in IMPORTED_FAULTS.items() for one in all_])
def test_a_change_after_the_import_is_found(name, code, pointer):
    value = json.loads((DATA / name / "published.json").read_text())
    *folders, leaf = pointer[1:].split("/")
    inner = value
    for folder in folders:
        inner = inner[int(folder)] if isinstance(inner, list) else inner[folder]
    inner[leaf] = IMPORTED_FAULTS[code][pointer](inner[leaf])
    assert code in [one[0] for one in told(json_files.convert(value, Published, "published"))]


def test_a_document_that_was_emptied_is_told():
    value = json.loads((DATA / ZERO / "published.json").read_text()) | {"rows": [], "tables": []}
    assert ("LP622", "/rows") in [one[:2] for one in told(json_files.convert(value, Published, "published"))]


def test_a_case_that_this_library_has_not_got_is_no_change():
    """Who imported it may have had one."""
    text = SOURCES[LORA].replace("lora", "adapters").replace("LORA", "adapters").replace("LoRA", "adapters")
    value = json.loads(json_files.encode(read(text)))
    before = told(json_files.convert(value, Published, "published"))
    for row in value["rows"]:
        assert row["case"] is None
        row["case"] = "mine"
    assert "LP622" not in [one[0] for one in before]
    assert told(json_files.convert(value, Published, "published")) == before


RARE = {"LP213", "LP312", "LP616"}
"""No published document has a place for these faults (two throughputs, another convention); their pages show them."""


def test_every_rule_over_published_documents_is_shown_to_catch_its_fault():
    rules = {owned.rule.code for owned in open_catalogue().all_rules() if "published" in owned.rule.kinds}
    assert rules == FAULTS.keys() | IMPORTED_FAULTS.keys() | RARE | {"LP314"}
    assert {case.values[0] for case in CASES} == set(FAULTS)


def validated(path, **texts):
    """The codes by file in a folder, after these READMEs were written to folders in it."""
    for name, written in texts.items():
        (path / name).mkdir(parents=True)
        (path / name / "README.md").write_text(written)
    return {
        file.path.relative_to(path).as_posix(): [one.code for one in file.findings]
        for file in Validator().validated(path)
    }


def test_readmes_in_a_folder_are_validated_and_other_markdown_is_not(tmp_path):
    (tmp_path / "NOTES.md").write_text("| model | throughput |\n|---|---|\n| a | 3 tokens/s |\n")
    (tmp_path / "README.md").write_text("# Throughput | and more\n")
    assert validated(tmp_path, vendor=SOURCES[R300]) == {"vendor/README.md": [code for code, _, _ in FOUND[R300]]}


REPRINTED = {
    "digit groups": ("2868 ", "2,868 "),
    "spaces": ("32/40", "32 / 40"),
    "another zero": ("38.6%", "38.60%"),
    "a loss of three digits": (" 4.65 ", " 4.650 "),
}


@pytest.mark.parametrize("one", REPRINTED)
def test_a_copied_row_that_is_printed_otherwise_is_found(tmp_path, one):
    was, now = REPRINTED[one]
    assert was in SOURCES[MEGATRON]
    found = validated(tmp_path, a=SOURCES[MEGATRON], b=SOURCES[MEGATRON].replace(was, now))
    assert found["b/README.md"].count("LP631") == 2


def test_a_copied_row_below_a_relative_path_is_found(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    validated(Path("out", "results"), a=SOURCES[MEGATRON], b=SOURCES[MEGATRON] + "\n")
    assert validated(Path("out"))["results/b/README.md"].count("LP631") == 2


@pytest.mark.parametrize("name", ["manifest.json", "result.json"])
def test_a_file_beside_a_document_does_not_hide_it(tmp_path, name):
    (tmp_path / "README.md").write_text(SOURCES[R300])
    (tmp_path / name).touch()
    assert validated(tmp_path)["README.md"] == [code for code, _, _ in FOUND[R300]]


def test_findings_in_a_readme_stand_at_its_lines(tmp_path):
    (tmp_path / "README.md").write_text(SOURCES[R300])
    (file,) = Validator().validated(tmp_path)
    assert f"{tmp_path}/README.md:57:/rows/0/metrics/mfu: LP214 warning" in text(file)
    assert f"::warning file={tmp_path}/README.md,line=57,title=LP214::" in github([file])
    places = [one["locations"][0]["physicalLocation"] for one in json.loads(sarif([file]))["runs"][0]["results"]]
    assert [one["region"]["startLine"] for one in places] == [57, 57, 33]


def test_a_row_copied_under_another_name_is_found(tmp_path):
    found = validated(tmp_path, a=SOURCES[ZERO], b=SOURCES[ZERO].replace("H800", "H20"), c=SOURCES[ZERO])
    assert "LP631" not in found["a/README.md"]
    assert found["b/README.md"].count("LP631") == 2
    assert "LP631" not in found["c/README.md"], "the same document again is no second submission"
