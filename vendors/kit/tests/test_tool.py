"""A vendor's tool may hang, flood, fail, or not be there: one line says which."""

import subprocess
import sys
import time

import pytest
from llmperf_vendorkit import tool_output


def script(code):
    return [sys.executable, "-c", code]


def test_output_is_text_that_a_terminal_can_bear():
    printed = tool_output(script(r"import sys; sys.stdout.buffer.write(b'a\tb\r\n\x1b[31mred\xff\n')"))
    assert printed == "a\tb\n?[31mred\ufffd\n"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import time; print('x', flush=True); time.sleep(600)", "gave no answer in 0.3 s"),
        ("import os, time; os.close(1); os.close(2); time.sleep(600)", "gave no answer in 0.3 s"),
        ("while True: print('x' * 1000)", "printed more than the 5000 bytes"),
        ("import sys; print(); print('no driver', file=sys.stderr); sys.exit(3)", "no driver"),
        ("import sys; print('told here'); sys.exit(3)", "told here"),
        ("import sys; sys.exit(3)", "exit code 3"),
    ],
)
def test_a_tool_that_gives_no_answer_is_one_line(code, message):
    began = time.monotonic()
    with pytest.raises(OSError, match=message) as caught:
        tool_output(script(code), seconds=0.3 if "0.3 s" in message else 100, max_bytes=5000)
    assert time.monotonic() - began < 250
    assert len(str(caught.value).splitlines()) == 1


def test_a_tool_that_is_not_there_or_no_program(tmp_path):
    with pytest.raises(OSError, match=r"^no-such-tool is not installed$"):
        tool_output(["no-such-tool"])
    (tmp_path / "text").write_text("plain")
    with pytest.raises(OSError, match="text cannot be run: Permission denied"):
        tool_output([str(tmp_path / "text")])


def test_what_a_tool_started_is_ended_with_it(tmp_path):
    mark = tmp_path / "mark"
    code = (
        "import subprocess; child = subprocess.Popen(['sleep', '600'], stdout=subprocess.DEVNULL)\n"
        f"open({str(mark)!r}, 'w').write(str(child.pid))\nwhile True: print('x' * 1000)"
    )
    with pytest.raises(OSError, match="printed more"):
        tool_output(script(code), seconds=100, max_bytes=5000)
    child, deadline = int(mark.read_text()), time.monotonic() + 60
    while runs(child):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def runs(pid):
    """Whether a process has not ended."""
    listed = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout
    return bool(listed.strip()) and not listed.startswith("Z")
