"""Results and imported documents as pages of the HTML report."""

import json
import re
import shutil
from pathlib import Path

import llmperf_schemas
from llmperf.files import json_files
from llmperf.files.json_files import convert
from llmperf.reporting.result_sheets import result_sheet
from llmperf.runfolder import filenames
from llmperf.runfolder.contents import read_run
from llmperf.types import DeviceSample, MemorySample, Result
from llmperf.validation.catalogue import open_catalogue
from llmperf.validation.check import Validator
from llmperf.validation.document_files import read_document
from llmperf_html.page import html as page_of
from llmperf_published.reporting.sheets import published_sheets

FAILURE = {"rank": 1, "reason": "killed", "exception": None, "message": "rank 1 was killed by SIGKILL", "log_tail": []}
HOSTILE = "</script><script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">\u2028"
CHROMIUM = shutil.which("chromium")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def some(number, **changed):
    """Results that differ in name and throughput."""
    made = []
    for index in range(number):
        document = llmperf_schemas.example("result") | {"run_id": f"run-{index:05d}"} | changed
        document["metrics"] = document["metrics"] | {"tokens_per_second_per_device": 100.0 + index}
        made.append((Path(f"nowhere/run-{index:05d}/result.json"), convert(document, Result, "result")))
    return made


def html(results, language, documents=()):
    """The page of results and imported documents, with what validation finds in them."""
    validator = Validator()
    kinds = validator.catalogue.kinds
    sheets = [result_sheet(result, path, validator.checked(kinds["result"], path, result).findings)
              for path, result in results]  # fmt: skip
    for path, document in documents:
        sheets += published_sheets(document, path, validator.checked(kinds["published"], path, document).findings)
    return page_of(sheets, language)


def published(name):
    """A document of the repository."""
    path = Path(__file__).parents[3] / "extensions/published/src/llmperf_published/data" / name / "published.json"
    return [(path, read_document(open_catalogue().kinds["published"], path))]


def data_of(page):
    """The data of a page, with what its runs share in each of them, as the page's scripts show it."""
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)[1])
    sections = [part | {"rows": [data["rows"][row] for row in part["rows"]]} for part in data["sections"]]
    for run in data["runs"]:
        cells = zip(run["printed"], run["row"], strict=False)
        texts = [("-" if row is None else row) if text is None else text for text, row in cells]
        run["printed"] = dict(zip(data["fields"], texts, strict=False))
        run["row"] = dict(zip(data["fields"], run["row"], strict=True))
        run["sections"] = [sections[part] for part in run["sections"]]
        run["findings"] = [data["findings"][finding] for finding in run["findings"]]
    return data


def sampled(run):
    """The run folder with readings of its device from 3 s before its window on, and one rank that is slower."""
    begin, _ = read_run(run).windows[0]
    readings = [MemorySample(at=at, monotonic=begin - 3 + at, query_seconds=0.0, devices=(DeviceSample(index=0,
                memory_used_bytes=2**30 + at, memory_total_bytes=2**33),)) for at in range(6)]  # fmt: skip
    (run / filenames.MEMORY).write_bytes(b"".join(json_files.encode(one) + b"\n" for one in readings))
    records = run / filenames.RECORDS / "rank-00000.jsonl"
    records.write_text(re.sub(r'"step_seconds":[^,}]+', '"step_seconds":9.5', records.read_text()))
    return run
