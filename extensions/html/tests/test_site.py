"""`llmperf site`: a static website, whole, harmless, the same each time."""

import json
import re
import shutil
import subprocess
import tempfile
import xml.etree.ElementTree as ElementTree
import zipfile
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
from llmperf.cli.main import call
from llmperf_compare.documents import opened_results
from llmperf_html.run_curves import curves_of
from llmperf_html.site.content import Content
from llmperf_html.site.page import Frame
from llmperf_html.site.pages import run_page

PUBLISHED = Path(__file__).parents[3] / "extensions/published/src/llmperf_published/data"
CHROMIUM = shutil.which("chromium")
HOSTILE = "</title><script>alert(1)</script><img src=x onerror=alert(1)>\u202e../../etc\"'"
ATOM = "{http://www.w3.org/2005/Atom}"


class Page(HTMLParser):
    """What a page is made of."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.links, self.ids = [], [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        named = dict(attrs)
        assert not any(name.startswith("on") or name == "style" for name in named)
        if "id" in named:
            assert named["id"] not in self.ids
            self.ids.add(named["id"])
        self.links += [named[name] for name in ("href", "src") if name in named]


def write(folder, example, **changed):
    """A run folder with a result."""
    folder.mkdir(parents=True)
    document = json.loads(json.dumps(example)) | {"run_id": folder.name} | changed
    number = abs(hash(folder.name)) % 2**64
    document["files"]["records/rank-00000.jsonl"] = f"{number:064x}"
    document["metrics"]["window_seconds"] += number / 2**74
    (folder / "result.json").write_text(json.dumps(document))
    return document


def site(*arguments):
    """The files of a site by path."""
    assert call(["site", *map(str, arguments)]) == 0
    out = Path(arguments[arguments.index("-o") + 1])
    return {path.relative_to(out).as_posix(): path.read_text() for path in sorted(out.rglob("*")) if path.is_file()}


def check(files):
    """Every page is small, runs the site's own script alone, and its links lead to files of the site."""
    for name, text in files.items():
        if not name.endswith(".html"):
            continue
        page = Page(text)
        assert not {"style", "img", "iframe", "object", "base"} & set(page.tags)
        assert "default-src 'none'; script-src 'self' file:; style-src 'self' file:;" in unescape(text)
        for script in re.findall(r"<script(.*?)>(.*?)</script>", text, re.DOTALL):
            assert re.fullmatch(r' src="(\.\./)?assets/charts.js"', script[0]) or json.loads(script[1])["words"]
        assert page.tags.count("h1") == 1
        assert len(text) < 200_000
        for link in page.links:
            path = (Path("/site", name).parent / unquote(link.partition("#")[0])).as_posix() if link[0] != "#" else ""
            target = str(Path(path).resolve().relative_to("/site")) if path else name
            assert target in files, (name, link)


@pytest.mark.slow
def test_a_site_of_the_rows_that_ship(tmp_path, capsys):
    files = site(PUBLISHED, "-o", tmp_path / "site", "--title", "Rows")
    check(files)
    assert "19 results" in capsys.readouterr().out
    index = files["index.html"]
    assert "<title>Rows</title>" in index
    assert '<a href="vendors.html">Vendors</a>' in index
    assert ">kunlunxin</a>" in files["vendors.html"]
    assert "gradient_checkpointing=true" in index
    assert "llama1_7b" in index
    assert "4267" in index
    assert '>42.7 %</data></span> <span class="note">computed<' in index
    fastest = next(row for row in index.split("<tr") if ">4267<" in row)
    assert re.search(r'class="bar printed" width="100.00%"', fastest)
    assert re.search(r'class="bar computed" width="57.\d+%"', fastest)
    names = "\n".join(files)
    for folder, word in (("models", "llama2-7b"), ("devices", "nvidia-a100"), ("vendors", "kunlunxin"),
                         ("frameworks", "paddle"), ("runs", "llama1")):  # fmt: skip
        assert re.search(rf"^{folder}/[a-z0-9-]*{word}[a-z0-9-]*\.html$", names, re.MULTILINE), folder
    assert ElementTree.fromstring(files["feed.xml"]).tag == f"{ATOM}feed"


@pytest.mark.slow
def test_the_same_results_give_the_same_site_wherever_they_are(tmp_path):
    shutil.copytree(PUBLISHED, tmp_path / "elsewhere")
    first, second = (site(path, "-o", tmp_path / name)
                     for path, name in ((PUBLISHED, "a"), (tmp_path / "elsewhere", "b")))  # fmt: skip
    assert first == second
    assert str(tmp_path) not in "".join(first.values())


def test_names_of_one_device_in_a_catalogue_share_a_page(tmp_path, example):
    for name in ("NVIDIA H800", "NVIDIA_H800", "H800-SXM5-80GB", "NVIDIA H20"):
        write(tmp_path / "runs" / name, example, hardware=example["hardware"] | {"device_model": name})
    devices = [name for name in site(tmp_path / "runs", "-o", tmp_path / "site") if name.startswith("devices/")]
    assert sorted(name.rpartition("-")[0] for name in devices) == ["devices/nvidia-h20", "devices/nvidia-h800"]


@pytest.mark.slow
def test_runs_imported_rows_and_prices_on_one_site(tmp_path, example):
    write(tmp_path / "runs" / "slow", example)
    document = write(tmp_path / "runs" / "other", example, created="2026-11-20T10:00:00+00:00")
    device = document["hardware"]["device_model"]
    (tmp_path / "prices.toml").write_text(
        f'[prices."{device}"]\nper_hour = 2\ncurrency = "USD"\ndate = 2026-01-02\nsource = "list"\n'
    )
    files = site(tmp_path / "runs", PUBLISHED, "-o", tmp_path / "site", "--prices", tmp_path / "prices.toml",
                 "--url", "https://example.org/perf", "--train-tokens", "1T")  # fmt: skip
    check(files)
    for title in ("cost per million tokens", "cost of a training", "training, days"):
        assert title in files["index.html"]
    page = next(text for name, text in files.items() if name.startswith("runs/other"))
    assert "Cost of a training" in page
    assert "prices.toml, 2026-01-02" in files["index.html"]
    assert "2026-01-02" in page
    assert "in 2 runs" in files["index.html"]
    assert "2026-11-20" in files["changes.html"]
    entries = ElementTree.fromstring(files["feed.xml"]).findall(f"{ATOM}entry")
    addresses = [entry.find(f"{ATOM}link").get("href") for entry in entries]
    assert len(addresses) == 2
    assert all(address.startswith("https://example.org/perf/runs/") for address in addresses)
    assert all(address.removeprefix("https://example.org/perf/") in files for address in addresses)


def text_of(page):
    """The words of a page, one text a line."""
    return unescape(re.sub(r"<[^>]+>", "\n", re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)))


def test_a_run_opens_with_its_figures_and_findings_and_says_where_the_time_went(tmp_path, run_folder):
    files = site(run_folder, "-o", tmp_path / "site")
    check(files)
    page = next(text for name, text in files.items() if name.startswith("runs/"))
    words = text_of(page)
    headings = ("token/p/s", "Findings", "Curves", "Where the time went", "Estimate and measurement", "Performance",
                "Environment and details")  # fmt: skip
    places = [words.index(f"\n{heading}\n") for heading in headings]
    assert places == sorted(places)
    folded = page.index("<summary><h2>Environment and details")
    assert folded < page.index("<h3>Environment")
    assert re.search(r"measuring\s+3\.84\s+56\.1 %", words)


def test_a_failure_is_read_before_the_figures(tmp_path, example):
    failure = {"reason": "killed", "rank": 1, "exception": None, "message": "", "log_tail": ["last words"]}
    write(tmp_path / "runs" / "lost", example, status="failed", failure=failure)
    files = site(tmp_path / "runs", "-o", tmp_path / "site")
    page = next(text for name, text in files.items() if name.startswith("runs/"))
    assert page.index("Findings") < page.index("last words") < page.index("Performance</h2>")
    assert page.count("<h2>Performance</h2>") == 1
    assert "<h3>Environment</h3>" in page[page.index("<details") :]


def test_operations_of_a_traced_step_add_up_whatever_overlaps(tmp_path, run_folder):
    (opened,) = opened_results([run_folder], print)
    parts = {"products": 0.3, "memory": 0.2, "other": -0.1}
    curves = replace(curves_of(opened), traced_seconds=parts, expected={"step_seconds": 0.32})
    traced = replace(opened, curves=lambda: curves)
    content = Content([traced], [traced])
    words = {language: text_of(run_page(Frame(title="x", language=language), content, content.runs[0]))
             for language in ("en", "zh")}  # fmt: skip
    assert re.search(r"products\s+0\.3000\s+75\.0 %", words["en"])
    assert re.search(r"below 0 where operations overlap\s+-0\.1000\s+-25", words["en"])
    assert re.search(r"step, s, median\s+0\.3200\s+0\.64\d\d\s+2\.0", words["en"])
    assert "一个跟踪步" in words["zh"]
    assert "矩阵乘" in words["zh"]


def test_hostile_results_stay_text(tmp_path, example):
    example["hardware"] |= {"device_model": HOSTILE}
    example["model"] |= {"name": "../../x", "title": HOSTILE}
    write(tmp_path / "runs" / "x", example, title=HOSTILE, notes=[HOSTILE], case=HOSTILE)
    files = site(tmp_path / "runs", "-o", tmp_path / "site", "--title", HOSTILE)
    check(files)
    assert all(re.fullmatch(r"([a-z]+/)?[a-z0-9-]+\.(html|xml|json|css|js)", name) for name in files)
    ElementTree.fromstring(files["feed.xml"])
    assert "\u202e" not in "".join(files.values())


@pytest.mark.slow
def test_a_site_is_chinese_in_a_chinese_locale(tmp_path, monkeypatch):
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    files = site(PUBLISHED, "-o", tmp_path / "site")
    check(files)
    assert '<html lang="zh">' in files["index.html"]
    assert "<title>llmperf 结果</title>" in files["index.html"]
    for english in ("Leaderboard", "Devices", "Changes", "Skip to", "rank", "validation", "The figures", "not checked"):
        assert f">{english}" not in files["index.html"], english
    assert "排行榜" in files["index.html"]
    pages = "".join(files.values())
    assert "分片阶段" in pages
    assert ">名次</th>" in pages
    assert not [each for each in ("sharding stage", "is withheld", "is printed", "convention, of") if each in pages]


@pytest.mark.slow
def test_a_site_is_replaced_and_anything_else_is_kept(tmp_path, ran):
    target = tmp_path / "site"
    site(PUBLISHED, "-o", target)
    site(PUBLISHED / "llama2_7b_lora_a100", "-o", target)
    assert not [path for path in (target / "runs").iterdir() if "baichuan" in path.name]
    (target / "CNAME").write_text("example.org")
    assert "CNAME" in ran(2, "site", PUBLISHED, "-o", target).err
    assert (target / "CNAME").exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["site"]


@pytest.mark.parametrize(("place", "message"), [
    ("results", "outside of the results"), (".", "outside of the results"), ("file", "a link or a file"),
    ("link", "a link or a file"), ("none/site", "no folder"), ("own", "expected an empty folder"),
])  # fmt: skip
def test_folders_that_would_lose_something_are_refused(tmp_path, ran, monkeypatch, place, message):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(PUBLISHED, tmp_path / "results")
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "thesis.txt").touch()
    before = sorted(tmp_path.rglob("*"))
    assert message in ran(2, "site", "results", "-o", place).err
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
@pytest.mark.slow
def test_no_kind_of_page_has_an_accessibility_finding_and_runs_have_charts(tmp_path, run_folder):
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    axe = pytest.importorskip("axe_playwright_python.base", reason="axe-playwright-python is not installed")
    places = []
    for language, kinds in (
        ("en", ("index", "devices.", "changes", "models/", "devices/", "runs/")),
        ("zh", ("index",)),
    ):
        files = site(run_folder, PUBLISHED, "-o", tmp_path / language, "--lang", language)
        places += [tmp_path / language / next(name for name in files if name.startswith(kind)) for kind in kinds]
    places.append(next(path for path in (tmp_path / "en" / "runs").iterdir() if 'id="charts"' in path.read_text()))
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 390, "height": 800})
        messages = []
        page.on("console", lambda message: messages.append(message.text))
        for place in places:
            page.goto(place.as_uri())
            page.evaluate(axe.AXE_SCRIPT)
            found = page.evaluate("axe.run({preload: false}).then(found => found.violations.map(one => one.id))")
            assert found == [], place
            assert page.evaluate("document.documentElement.scrollWidth") <= 390, place
        assert page.locator("#charts canvas").count() >= 2
        assert page.evaluate("getComputedStyle(document.querySelector('header nav')).display") == "flex"
        browser.close()
    assert messages == []


def test_submissions_are_unpacked_and_those_that_were_changed_left_out(tmp_path, run_folder, capsys):
    folder = tmp_path / "submissions" / "acme"
    folder.mkdir(parents=True)
    assert call(["pack", str(run_folder), "-o", str(folder / "good.zip")]) == 0
    shutil.copy(folder / "good.zip", folder / "same.zip")
    with zipfile.ZipFile(folder / "good.zip") as packed, zipfile.ZipFile(folder / "changed.zip", "w") as changed:
        for name in packed.namelist():
            changed.writestr(name, packed.read(name).replace(b"zero", b"nero"))
    (folder / "broken.zip").write_bytes(b"PK")
    (folder / "llmperf.toml").write_text('[prices."x"]\nper_hour = 0\n')
    capsys.readouterr()
    files = site(tmp_path / "submissions", "-o", tmp_path / "site")
    check(files)
    out, err = capsys.readouterr()
    assert "1 result," in out
    assert len([name for name in files if name.startswith("runs/")]) == 1
    assert len(err.splitlines()) == 3, err
    assert "broken.zip" in err
    assert "changed.zip: LP80" in err
    assert "good.zip" in err
    assert "is the same run as" in err
    assert "/tmp/llmperf-" not in "".join(files.values())
    direct = site(run_folder, "-o", tmp_path / "direct")
    runs, direct_runs = ({name: re.sub(r"<(p|small)[^>]*>signature not checked</\1>", "", text)
                          for name, text in some.items() if name.startswith("runs/")}
                         for some in (files, direct))  # fmt: skip
    assert runs == direct_runs


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs ssh-keygen")
def test_a_signed_submission_names_its_signer(tmp_path, run_folder):
    archive, key, signers = tmp_path / "a.zip", tmp_path / "key", tmp_path / "signers"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(key)], check=True)
    signers.write_text(f'Acme namespaces="llmperf" {key.with_suffix(".pub").read_text()}')
    assert call(["pack", str(run_folder), "-o", str(archive)]) == 0

    def said(*options):
        files = site(archive, *options, "-o", tmp_path / "site")
        run = next(text for name, text in files.items() if name.startswith("runs/"))
        words = ("signature not checked", "signed by Acme", "not signed", "no valid signature")
        return [[word for word in words if word in text] for text in (files["index.html"], run)]

    assert said() == [["signature not checked"]] * 2
    assert said("--signers", signers) == [["not signed"]] * 2
    assert call(["sign", str(archive), "--key", str(key)]) == 0
    assert said("--signers", signers) == [["signed by Acme"]] * 2
    signers.write_text(signers.read_text().replace('"llmperf"', '"file"'))
    assert said("--signers", signers) == [["no valid signature"]] * 2


def test_no_unpacked_archive_is_left_while_others_are_read(tmp_path, run_folder, monkeypatch):
    folder, scratch = tmp_path / "submissions", tmp_path / "scratch"
    folder.mkdir()
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    assert call(["pack", str(run_folder), "-o", str(folder / "a.zip")]) == 0
    (folder / "b.zip").write_bytes(b"PK")
    shutil.copy(folder / "a.zip", folder / "c.zip")
    present = []
    opened, _ = opened_results([folder], lambda _: present.append(list(scratch.iterdir())))
    assert present == [[]]
    assert curves_of(opened).by_name["step_seconds"].x


def test_nothing_to_show_is_an_error(tmp_path, ran):
    (tmp_path / "empty").mkdir()
    assert len(ran(2, "site", tmp_path / "empty", "-o", tmp_path / "site").err.splitlines()) == 1
    assert not (tmp_path / "site").exists()


def test_absurd_figures_stay_short_and_do_not_flatten_valid_bars(tmp_path, example, run_folder, saved):
    shutil.copytree(run_folder, tmp_path / "runs" / "good")
    document = json.loads((run_folder / "result.json").read_text()) | {"run_id": "absurd", "files": {}}
    document["metrics"] |= {"tokens_per_second_per_device": 1e308, "window_seconds": 3.0}
    document["hardware"]["device_model"] = "Other CPU"
    saved(tmp_path / "runs" / "absurd" / "result.json", document)
    files = site(tmp_path / "runs", "-o", tmp_path / "site")
    board = files["index.html"] + "".join(text for name, text in files.items() if name.startswith("models/"))
    assert "1e+308" in board
    assert "longer than its bar" in board
    assert not re.search(r"\d[\d,]{40}", re.sub(r'content="[^"]*"', "", "".join(files.values())))
    assert board.count('width="100.00%"') >= 2
    assert call(["report", str(tmp_path / "runs"), "--format", "html", "-o", str(tmp_path / "report.html")]) == 0
    assert "longer than its bar" in (tmp_path / "report.html").read_text()
