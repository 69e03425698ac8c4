"""The documents were executed: each command in them that is quick is run, and each link points somewhere."""

import ast
import re
import shlex
from pathlib import Path
from types import ModuleType

import click
import llmperf_schemas
import pytest
from llmperf.cli.main import COMMANDS, call, cli, extra_commands
from llmperf.files.json_files import convert, save
from llmperf.files.user_files import read_toml
from llmperf.plugins.discovery import Found
from llmperf.plugins.loading import Plugins
from llmperf.results.run_result import build_result
from llmperf.types import LoggedFacts, LoggedStep, Plan
from llmperf_scripts.steps import logged_in

ROOT = Path(__file__).parents[1]
OWN_TEST = ("guides/any-program.md", "vendors.md", "extending.md", "own-files.md", "trust.md")
"""Their commands need what they build, and have tests of their own."""
GUIDES = tuple(ROOT / "docs" / name for name in OWN_TEST)
DOCUMENTS = [path for folder in (".", "docs", "docs/guides") for path in sorted((ROOT / folder).glob("*.md"))]

COMMAND = re.compile(r"^(?:\./dev )?(llmperf [^#|>\n]*)", re.MULTILINE)
FOLDERS = ("zero", "pytorch", "megatron", "submission", "micro_batches/runs", "bf16", "fp8")
"""Where the documents' commands have runs: `--out runs/NAME`."""
NAMED = re.compile(r"```toml\n# ([a-z_]+\.toml)\n(.*?)```", re.DOTALL)
"""A file of a document whose first line is its name."""
LINK = re.compile(r"\]\(([^)#]+)[^)]*\)")


def commands():
    """Every llmperf command of the documents' shell blocks, once."""
    documents = [path for path in DOCUMENTS if path not in GUIDES]
    blocks = [block for path in documents for block in re.findall(r"```sh\n(.*?)```", path.read_text(), re.DOTALL)]
    found = {" ".join(match.split()) for block in blocks for match in COMMAND.findall(block)}
    return [shlex.split(command)[1:] for command in sorted(found)]


ELSEWHERE = {"peak", "profile", "tune", "recover", "fuzz"}
"""Commands that measure for a minute, or need a run that was cut off: their options are parsed alone."""


@pytest.mark.slow
@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_commands_in_the_documents_work(words, tmp_path, monkeypatch, capsys, saved):
    monkeypatch.chdir(tmp_path)
    for number, folder in enumerate(FOLDERS):
        run = tmp_path / "runs" / folder / f"20261121-03040{number}-default-cpu-zero-ab12"
        result = llmperf_schemas.example("result") | {"run_id": run.name}
        result["files"]["records/rank-00000.jsonl"] = f"{number:064x}"
        result["metrics"]["tokens_per_second_per_device"] += number / 10**9  # equal figures are those of one run
        result["hardware"]["device_share"] = 1.0 if "flagperf" in words else result["hardware"]["device_share"]
        saved(run / "result.json", result)
        if folder == "submission":
            save(run / "plan.json", convert(llmperf_schemas.example("plan"), Plan, "plan"))
            save(run / "result.json", build_result(run))
    for document in ("clusters.md", "models.md", "user-guide.md", "guides/buyer.md"):
        for name, text in NAMED.findall((ROOT / "docs" / document).read_text()):
            if name != "llmperf.toml":
                (tmp_path / name).write_text(text)
    for name in ("docs", "published"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "train.py").touch()
    configuration = tmp_path / "FlagPerf/training/nvidia/llama2_7b-megatron-deepspeed/config/config_A100x1x8.py"
    configuration.parent.mkdir(parents=True)
    configuration.write_text("seqlength = 4096\nprecision = 'bf16'\n")
    if any(word.startswith("cases/") for word in words):
        assert call(["import", str(configuration), "--out", "cases"]) == 0
    (tmp_path / "results.md").write_text("| tokens/s/GPU | MFU |\n|---|---|\n| 3,700 | 49.8% |\n")
    assert words[0] in {*COMMANDS, *extra_commands()}
    elsewhere = not {"--launcher", "--hosts", "--overlay"}.isdisjoint(words)
    traces = words[0] == "estimate" and "--analytic" not in words
    if elsewhere or traces or words[0] in ELSEWHERE:  # not here, or a minute of work: the options are parsed alone
        command = cli.get_command(click.Context(cli), words[0])
        assert command.make_context(words[0], words[1:])
        return
    if words[0] == "run":
        words = [*words, "--dry-run"]
    elif words == ["validate", "submission.zip"]:
        assert call(["pack", *expanded("runs/submission/*"), "-o", "submission.zip"]) == 0
    assert call([path for word in words for path in expanded(word)]) == 0, capsys.readouterr().err


def expanded(word):
    """A word of a command as the shell gives it: paths where it is a pattern."""
    return sorted(str(path) for path in Path().glob(word)) if "*" in word else [word]


def anchors(page):
    """The anchors of a page's headings, as web sites of repositories and the documentation's own site make them."""
    text = re.sub(r"^(`{3,}).*?^\1", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    titles = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title) for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE)]
    return {re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_inside_the_repository_point_to_a_page_or_a_heading(path):
    for target in LINK.findall(path.read_text()):
        if not target.startswith(("http:", "https:", "mailto:")):
            assert (path.parent / target).exists(), target
    for target, anchor in re.findall(r"\]\(([^)#:]*\.md|)#([^)]+)\)", path.read_text()):
        page = path if not target else path.parent / target
        assert anchor in anchors(page), f"{target}#{anchor}"


def test_each_page_is_in_the_navigation_of_the_site():
    navigation = (ROOT / "mkdocs.yml").read_text()
    for page in (
        path.relative_to(ROOT / "docs").as_posix() for path in DOCUMENTS if path.is_relative_to(ROOT / "docs")
    ):
        assert page in navigation, f"mkdocs.yml: nav: expected {page}"


def test_no_two_rules_of_the_project_have_one_code():
    pages = [*ROOT.glob("core/src/*/data/rules.toml"), *ROOT.glob("*/*/src/*/data/rules.toml")]
    names = [code for page in pages for code in read_toml(page)]
    assert sorted(names) == sorted(set(names))


def block(language, containing):
    """The one block of the plugin author's guide in a language that has some text in it."""
    text = (ROOT / "docs" / "plugin-authors.md").read_text()
    (found,) = [one for one in re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL) if containing in one]
    return found


def test_the_script_framework_of_the_authors_guide_reads_the_lines_that_it_shows():
    lines = block("text", "step 1 | loss")
    module = ModuleType("llmperf_abacus")
    exec(compile(block("python", "llmperf_parse_log"), "plugin.py", "exec"), module.__dict__)
    plugins = Plugins()
    plugins.register(module, Found("abacus", "framework", "abacus", "llmperf-abacus", "1.0"))
    assert [logged_in(line, plugins.several, "abacus") for line in ("loading data", *lines.splitlines())] == [
        (),
        (LoggedStep(step=1, loss=10.4021, tokens=8192), LoggedFacts(peak_memory_bytes=1_610_612_736)),
        (LoggedStep(step=2, loss=10.1930, tokens=8192), LoggedFacts(peak_memory_bytes=1_717_986_918)),
    ]


TEXT = (ROOT / "docs" / "troubleshooting.md").read_text().partition("## Messages of other programs")[0]
QUOTED = re.findall(r"^\| `([^|]*)` \|", TEXT, re.MULTILINE)
MIN_CHARACTERS = 3


def texts_of_the_code():
    """Every string of the sources, with the constant parts of f-strings."""
    strings = []
    for path in [*ROOT.glob("*/src/**/*.py"), *ROOT.glob("*/*/src/**/*.py")]:
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                strings.append(node.value)
            elif isinstance(node, ast.JoinedStr):
                strings.append("…".join(part.value for part in node.values if isinstance(part, ast.Constant)))
    return "\n".join(strings)


@pytest.mark.slow
def test_messages_of_the_page_are_those_of_the_code():
    code = texts_of_the_code()
    parts = {part.strip(" ;:,"): title for title in QUOTED for part in title.split("…")}
    assert len(QUOTED) >= 40
    unknown = {part: title for part, title in parts.items() if len(part) > MIN_CHARACTERS and part not in code}
    assert not unknown
