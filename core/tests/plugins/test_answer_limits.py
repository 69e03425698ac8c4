"""What a vendor plugin may answer, and what is said of its threads."""

import json
import threading

import pytest
from llmperf.cli.main import call

SOURCE = """
import threading
from llmperf import hookimpl
from llmperf.types import Offers, Probe

def fails():
    raise ValueError("no such \\x1b[31m thing")

@hookimpl
def llmperf_probe():
    {first}
    offers = Offers(precisions=(), runtimes=(), collective_backend="gloo")
    return Probe(vendor="loud", devices=(), offers=offers, problems={problems})
"""


@pytest.fixture
def listed(install, capsys, monkeypatch):
    """A function that lists devices with a vendor plugin: the exit code, the document and the other output."""
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)

    def devices(first="pass", problems="()"):
        install("llmperf-loud", "loud", SOURCE.format(first=first, problems=problems))
        code = call(["devices", "--json"])
        output = capsys.readouterr()
        return code, json.loads(output.out), output.err

    return devices


def test_an_answer_of_many_long_texts_is_refused(listed):
    code, document, _ = listed(problems="('x' * 1000,) * 200_000")
    assert code == 2
    refused = "vendor 'loud' (llmperf-loud): llmperf_probe: expected texts of at most 1048576 characters together"
    assert document["broken"] == [refused]


def test_a_thread_of_a_plugin_that_raises_is_named(listed):
    code, document, errors = listed(first="thread = threading.Thread(target=fails); thread.start(); thread.join()")
    assert (code, document["broken"]) == (0, [])
    assert "llmperf: vendor 'loud' (llmperf-loud): a thread raised ValueError: no such \\x1b[31m thing" in errors
    assert "Traceback" not in errors
