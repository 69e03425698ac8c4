"""Chrome traces in `llmperf compare --explain`: operations by name, and files that anybody may have made."""

import gzip
import json

import pytest
from llmperf.cli.main import call
from llmperf.errors import UserError
from llmperf_trace import chrome_traces
from llmperf_trace.chrome_traces import is_trace, read_trace


def event(name, begin, length, category="cpu_op", thread=1, **more):
    return {"ph": "X", "cat": category, "name": name, "pid": 7, "tid": thread, "ts": begin, "dur": length, **more}


def written(path, events, **more):
    document = {"schemaVersion": 1, "deviceProperties": [{"id": 0}], "traceEvents": events, "traceName": "x", **more}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(json.dumps(document).encode()))
    return path


HOST = [
    {"ph": "M", "name": "process_name", "pid": 7, "args": {}},
    event("ProfilerStep#0", 0, 100, "user_annotation"),
    event("FSDP::forward", 0, 100, "user_annotation"),
    event("aten::linear", 10, 50),
    event("aten::mm", 20, 30),
    event("aten::mm", 70, 10),
    event("aten::add", 15, 5, thread=2),
]


def test_calls_on_the_host_count_without_those_that_they_make(tmp_path):
    found = read_trace(written(tmp_path / "a.json.gz", HOST))
    assert (found.clock, found.marked_steps, found.malformed) == ("host", 1, 0)
    assert found.calls == {"aten.linear": 1, "aten.mm": 2, "aten.add": 1}
    assert found.seconds == pytest.approx({"aten.linear": 20e-6, "aten.mm": 40e-6, "aten.add": 5e-6})


def test_what_ran_on_a_device_is_preferred(tmp_path):
    kernels = [
        event("gemm", 5, 20, "kernel"),
        event("gemm", 5, 20, "kernel", thread=2),
        event("copy", 0, 1, "gpu_memcpy"),
    ]
    found = read_trace(written(tmp_path / "a.json.gz", [*HOST, *kernels]))
    assert found.clock == "device"
    assert found.calls == {"gemm": 2, "copy": 1}
    assert found.seconds == pytest.approx({"gemm": 40e-6, "copy": 1e-6})


def test_traces_of_other_programs_are_read_too(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"traceEvents": [event("outer", 0, 10, "x"), event("inner", 2, 3, "y")]}, indent=4))
    assert is_trace(path)
    assert read_trace(path).seconds == pytest.approx({"outer": 7e-6, "inner": 3e-6})


@pytest.mark.parametrize("end", ["]", "", ",", "]\n"])
def test_traces_may_be_lists_without_an_end(tmp_path, end):
    path = tmp_path / "a.json"
    path.write_text("\ufeff[" + ",".join(json.dumps(one) for one in HOST) + end)
    assert is_trace(path)
    assert read_trace(path) == read_trace(written(tmp_path / "b.json.gz", HOST))


def test_blocks_may_end_anywhere(tmp_path, monkeypatch):
    path = written(tmp_path / "a.json.gz", HOST, displayTimeUnit="µs")
    whole = read_trace(path)
    for size in (1, 7, 64):
        monkeypatch.setattr(chrome_traces, "BLOCK", size)
        assert read_trace(path) == whole


def test_events_without_finite_times_are_left_out_and_counted(tmp_path):
    wrong = [
        event(None, 0, 1), event("a", "0", 1), event("a", 0, -1), event("a", 0, True), event("a", 10**400, 1),
        event("a", 0, float("nan")), event("a", 0, float("inf")), 7, None, [event("a", 0, 1)],
    ]  # fmt: skip
    found = read_trace(written(tmp_path / "a.json.gz", [*wrong, *HOST]))
    assert found.malformed == 7
    assert "a" not in found.calls


def test_names_are_harmless(tmp_path):
    events = [event("\x1b[2J\ud800" + "n" * 10**5, 0, 1), event("aten::mm", 0, 1, tid={"a": ["x" * 10**4]})]
    name = max(read_trace(written(tmp_path / "a.json.gz", events)).calls, key=len)
    assert name.isprintable()
    assert len(name) <= chrome_traces.MAX_NAME


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "found 'its end'"),
        (b"[]", "complete events \\(ph X\\), found none$"),
        (b'[{"ph": "X", "dur": 1}]', "found none; 1 have no name or no finite times"),
        (b'[{"ph": "X"}] and more', "found 'a' at character 14"),
        (b'{"traceEvents": []} and more', "found 'a' at character 20"),
        (b'{"traceEvents": [], "a": tru', "found no JSON"),
        (b"{}", "found no traceEvents"),
        (b'{"traceEvents": 7}', "found '7'"),
        (b'{"traceEvents": []}', "expected a Chrome trace with complete events"),
        (b'{"traceEvents": [{"ph": "X"', "found no JSON"),
        (b'{"traceEvents": [{} {}]}', "expected a Chrome trace, found '{' at character 20"),
        (b'{"traceEvents": [' + b"[" * 10**5, "nested too deeply"),
        (b'{"traceEvents": [' + b"9" * 5000 + b"]}", "complete events"),
        (b"{" + b'"a": 1, ' * 2000 + b'"traceEvents": []}', "expected a Chrome trace, found '\"'"),
        (b'{"traceEvents": ["' + b"a" * (5 * 2**20) + b'"]}', "at most 4194304 characters, found a longer one"),
        (gzip.compress(b'{"traceEvents": []}', mtime=0)[:-9], "cannot read the Chrome trace"),
        (gzip.compress(b" " * 10**6, mtime=0), "found 'its end'"),
    ],
)
def test_malformed_traces_are_one_line(tmp_path, content, message):
    path = tmp_path / "a.json.gz"
    path.write_bytes(content)
    with pytest.raises(UserError, match=message) as error:
        read_trace(path)
    assert str(error.value).startswith(f"{path}: ")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("limit", "most", "message"),
    [("MAX_BYTES", 100, "at most 100 bytes"), ("MAX_EVENTS", 3, "3 events"), ("MAX_NAMES", 1, "1 operations")],
)
def test_larger_traces_are_refused(tmp_path, monkeypatch, limit, most, message):
    monkeypatch.setattr(chrome_traces, limit, most)
    with pytest.raises(UserError, match=message):
        read_trace(written(tmp_path / "a.json.gz", HOST))


def test_files_are_compared_by_themselves(tmp_path, monkeypatch, ran, capsys):
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "a.json.gz", HOST)
    written(tmp_path / "b.json.gz", [*HOST[1:], event("aten::mm", 80, 4000, thread=3)])
    lines = ran(0, "compare", "a.json.gz", "b.json.gz", "--explain").out.splitlines()
    assert lines[0] == "A: a.json.gz: calls on the host, means of 1 steps"
    (row,) = [line.split() for line in lines if line.startswith("aten.mm")]
    assert row == ["aten.mm", "0.04", "4.04", "+4.00", "2", "3"]
    assert any(line.startswith("from the Chrome traces, which no hash of a result covers") for line in lines)
    assert call(["compare", "a.json.gz", "b.json.gz", "--explain", "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)["chrome_traces"]["B"]
    assert (found["source"], found["operations"][0]["name"]) == ("Chrome traces", "aten.mm")


def test_files_need_explain_and_files_on_each_side(tmp_path, monkeypatch, ran):
    monkeypatch.chdir(tmp_path)
    whole = written(tmp_path / "a.json.gz", HOST).read_bytes()
    written(tmp_path / "b.json.gz", HOST[1:])
    (tmp_path / "half.json.gz").write_bytes(whole[: len(whole) // 2])
    for words, message in [
        (["a.json.gz", "a.json.gz"], "a.json.gz: a Chrome trace has no measured figures; add --explain"),
        (["a.json.gz", ".", "--explain"], "expected a Chrome trace, since a.json.gz is one"),
        (["a.json.gz", "half.json.gz", "--explain"], "half.json.gz: cannot read the Chrome trace"),
        (["a.json.gz", "a.json.gz", "--explain"], "a.json.gz: expected different files on all sides"),
        (["a.json.gz", "b.json.gz", "--explain", "--fail-below", "0.9"], "--fail-below: expected runs"),
        (["a.json.gz", "b.json.gz", "--explain", "--format", "sarif"], "expected --format terminal, markdown or json"),
    ]:
        assert message in ran(2, "compare", *words).err
