"""The example of the guide on importing was executed."""

import re
import shlex
from pathlib import Path

import pytest
from llmperf_published.reading.markdown import withheld
from llmperf_published.reading.numbers import figure

GUIDE = (Path(__file__).parents[3] / "docs" / "importing.md").read_text(encoding="utf-8")


def sessions():
    """Each command of the guide with the output below it."""
    block = re.findall(r"```console\n(.*?)```", GUIDE, re.DOTALL)[0]
    for part in block.split("$ llmperf ")[1:]:
        command, _, expected = part.partition("\n")
        yield shlex.split(command), expected.splitlines()


def test_the_example_prints_what_the_guide_says(tmp_path, monkeypatch, ran):
    (source,) = re.findall(r"````markdown\n(.*?)````", GUIDE, re.DOTALL)
    (tmp_path / "a100").mkdir()
    (tmp_path / "a100" / "README.md").write_text(source, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for words, expected in sessions():
        message = ran(0, *words)
        assert (message.out + message.err).splitlines() == expected
    shown = ran(0, "report", "imported", "--format", "markdown").out
    for line in source.splitlines():
        if line.startswith("| A100"):
            assert line in shown


@pytest.mark.parametrize("text", re.findall(r"`([^`]+)`", GUIDE.split("| withheld")[0].rsplit("\n", 1)[1]))
def test_what_the_guide_calls_withheld_is(text):
    assert withheld(text)
    assert figure(text).value is None


def test_the_expression_of_the_guide_is_computed():
    assert figure("16.67 * 2048 / 8 = 4267 tokens/s").computed == pytest.approx(4267.52)
    assert "computed: 4267.52" in GUIDE
