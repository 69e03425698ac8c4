"""Words reach a program on the host unchanged, whatever the login shell is."""

import shutil
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from llmperf.errors import UserError
from llmperf_ssh.client import command_line, quoted

PRINT = ("sh", "-c", 'printf "%s\\0" "$SEEN" "$@"', "sh")
SHELLS = {"sh": (), "bash": (), "dash": (), "zsh": (), "ksh": (), "busybox": ("sh",), "fish": (), "tcsh": (), "csh": ()}
"""Shells with the words before `-c`. sshd runs the login shell with `-c` and the command line."""

hard = st.text(st.sampled_from("'\"\\!$`&|;<>()*?[]{}~#=% \t\n^@-aé\u2028\U0001f600"), max_size=12)
words = st.lists(hard | st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12), max_size=5)


def seen_by(shell, line):
    """The arguments and the variable that a program gets through a shell."""
    argv = [shell, *SHELLS[shell], "-c", line]
    done = subprocess.run(argv, capture_output=True, env={"PATH": "/usr/bin:/bin", "HOME": "/", "LC_ALL": "C.UTF-8"})
    assert done.returncode == 0, done.stderr
    value, *arguments = done.stdout.decode().split("\0")[:-1]
    return arguments, value


@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_passes_every_word_on_unchanged(shell):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    csh = shell in ("tcsh", "csh")

    @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(words, hard)
    def check(arguments, value):
        if csh:  # it has no way to pass a line break on
            arguments, value = [word.replace("\n", "") for word in arguments], value.replace("\n", "")
        line = command_line([*PRINT, *arguments], {"SEEN": value})
        assert seen_by(shell, line) == (arguments, value)

    check()


def test_plain_words_stay_readable():
    assert command_line(["/opt/py/bin/python", "-m", "llmperf"], {"LLMPERF_NODE_RANK": "0"}) == (
        "exec env 'LLMPERF_NODE_RANK=0' /opt/py/bin/python -m llmperf"
    )
    assert quoted("it's") == r"'it'\''s'"


def test_the_shell_is_replaced_by_the_command():
    line = command_line([sys.executable, "-c", "import os; print(os.getpid())"], {})
    process = subprocess.Popen(["sh", "-c", line], stdout=subprocess.PIPE, text=True)
    assert process.communicate()[0].strip() == str(process.pid)


@pytest.mark.parametrize("name", ["", "A-B", "1A", "A;B", "A\n", "PFAD Ä", "A.B"])
def test_variables_with_names_that_a_shell_cannot_hold_are_refused(name):
    with pytest.raises(UserError, match="cannot set the variable"):
        command_line(["true"], {name: "1"})


def test_a_null_character_is_refused():
    with pytest.raises(UserError, match="NUL"):
        command_line(["true", "a\0b"], {})
