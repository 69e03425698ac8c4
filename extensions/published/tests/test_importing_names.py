"""Names that an import takes from installed plugins."""

import json

import pytest
from llmperf.cli.main import call
from llmperf_published.reading import library_match, names

VENDOR = """
from llmperf import hookimpl
from llmperf.types import Facts

@hookimpl
def llmperf_facts():
    return Facts(device_aliases={"acme": ("acme", "road ?runner"), "Acme A1": ("a1 card", "[")})
"""
DOCUMENT = """
# {title}
## Hardware environment
- Accelerator: Road Runner A1
## Software environment
- Training framework: {framework}
## Performance metrics
| configuration | token/p/s | MFU |
| --- | --- | --- |
| A1 (1x8) | 2868 | 38.6% |
| Road Runner A2 (1x8) | 2868 | 38.6% |
"""


@pytest.fixture
def forget_names():
    """Names of plugins are read once in a process; read them again in this test, and after it."""
    caches = (names.vendor_patterns, names._devices, library_match._other_frameworks)
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


@pytest.fixture
def acme(tmp_path, monkeypatch, forget_names):
    """An installed package with vendor `acme` and framework `acme_trainer`."""
    site = tmp_path / "site"
    info = site / "llmperf_acme_names-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: llmperf-acme-names\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[llmperf.vendor.v1]\nacme = llmperf_acme_names\n[llmperf.framework.v1]\nacme_trainer = llmperf_acme_names\n"
    )
    (site / "llmperf_acme_names.py").write_text(VENDOR)
    monkeypatch.syspath_prepend(str(site))
    return site


def imported(tmp_path, title="Results", framework="Acme Trainer 2.0"):
    (tmp_path / "table.md").write_text(DOCUMENT.format(title=title, framework=framework))
    assert call(["import", str(tmp_path / "table.md"), "--out", str(tmp_path / "out"), "--force"]) == 0
    return json.loads((tmp_path / "out" / "table" / "published.json").read_text())


def test_documents_of_an_installed_vendor_are_recognised_by_the_names_that_its_plugin_gives(acme, tmp_path):
    document = imported(tmp_path)
    assert document["vendor"] == "acme"
    assert document["rows"][0]["framework"] == "acme_trainer"
    assert [row["hardware"]["device"] for row in document["rows"]] == ["A1", "A2"]
    assert imported(tmp_path, title="Results on the A1 card")["vendor"] == "acme"


@pytest.mark.parametrize(
    ("accelerator", "vendors"),
    [
        ("AMD EPYC 9654", []),
        ("AMD Ryzen AI", []),
        ("AMD Instinct MI300X", ["rocm"]),
        ("AMD MI250X", ["rocm"]),
        ("MI355X", ["rocm"]),
        ("Radeon PRO W7900", ["rocm"]),
    ],
)
def test_amd_cpus_are_no_amd_gpus(accelerator, vendors):
    assert names.vendors_named(accelerator) == vendors


def test_without_the_plugin_vendor_and_framework_are_unknown(tmp_path, forget_names):
    document = imported(tmp_path)
    assert (document["vendor"], document["rows"][0]["framework"]) == (None, None)


def test_a_document_whose_vendor_s_plugin_is_missing_was_not_changed(acme, tmp_path, monkeypatch, capsys):
    imported(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))  # drops the cached contents of folders
    (acme / "llmperf_acme_names-1.0.dist-info" / "entry_points.txt").write_text("")
    for cache in (names.vendor_patterns, library_match._other_frameworks):
        cache.cache_clear()
    capsys.readouterr()
    call(["validate", str(tmp_path / "out")])
    assert "LP622" not in capsys.readouterr().out


def test_a_broken_vendor_plugin_does_not_stop_an_import(acme, tmp_path):
    (acme / "llmperf_acme_names.py").write_text("raise ValueError('broken')")
    assert imported(tmp_path, title="NVIDIA results")["vendor"] == "nvidia"
