"""TOML with long keys is refused before a parser takes quadratic time and memory for it."""

import time

import pytest
from llmperf.errors import UserError
from llmperf.files.user_files import parse_value, read_toml

PARTS = ".".join("a" * 500)
LONG_KEYS = {
    "a key": f"{PARTS} = 1",
    "a table": f"[{PARTS}]",
    "an array of tables": f"[[{PARTS}]]",
    "an inline table": f"x = {{{PARTS} = 1}}",
    "quoted parts": ".".join(['"a = 1"'] * 500) + " = 1",
    "literal parts": " . ".join(["'a.b'"] * 500) + " = 1",
    "after a multi-line string": f'x = {{y = """\n\' "x" """"", {PARTS} = 1}}',
    "after a literal multi-line string": f"x = {{y = '''\n\" ''''', {PARTS} = 1}}",
}


@pytest.mark.parametrize("text", LONG_KEYS.values(), ids=LONG_KEYS)
def test_a_key_of_many_parts_is_refused(tmp_path, text):
    path = tmp_path / "a.toml"
    path.write_text(text)
    with pytest.raises(UserError, match=r"expected keys of at most 64 parts, found more \(at line [12]\)"):
        read_toml(path)


def test_long_keys_are_refused_at_once(tmp_path):
    path = tmp_path / "a.toml"
    begin = time.monotonic()
    for text in (".".join("a" * 500_000) + "=1", "a" * 1_000_000, "x = " + "." * 1_000_000):
        path.write_text(text)
        with pytest.raises(UserError):
            read_toml(path)
    assert time.monotonic() - begin < 60


def test_dots_in_values_and_comments_are_no_keys(tmp_path):
    path = tmp_path / "a.toml"
    numbers = ", ".join(["0.5"] * 200)
    path.write_text(f'# {PARTS}\nx = [{numbers}]\ny = "{PARTS}"\nz = """\n{PARTS}"""\na.b.c = 1\n')
    table = read_toml(path)
    assert len(table["x"]) == 200
    assert (table["y"], table["z"], table["a"]) == (PARTS, PARTS, {"b": {"c": 1}})


def test_a_setting_with_a_long_key_is_text():
    assert parse_value(f"{{{PARTS} = 1}}") == f"{{{PARTS} = 1}}"
    assert parse_value("{a.b = 1}") == {"a": {"b": 1}}
