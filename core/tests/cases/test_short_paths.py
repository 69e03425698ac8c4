"""Short paths of `--set`: which of several is set, and what is printed for unknown ones."""

from collections import Counter

import pytest
from llmperf.cases.settings import from_command_line, known_paths


def test_a_path_that_several_end_with_sets_the_least_nested_and_says_so(ran):
    printed = ran(0, "plan", "default", "--set", "warmup_steps=3", "--set", "optimizer.warmup_steps=2")
    note = "llmperf: note: --set warmup_steps: sets contract.warmup_steps (also: contract.optimizer.warmup_steps)\n"
    assert printed.err.count("note") == 1
    assert note in printed.err
    assert [setting.path for setting in from_command_line(["warmup_steps=3"])] == ["contract.warmup_steps"]


def test_no_two_paths_of_one_depth_have_the_same_end():
    ends = Counter(
        (".".join(path.split(".")[place:]), path.count("."))
        for path in known_paths()
        for place in range(1, path.count(".") + 1)
    )
    assert [end for end, times in ends.items() if times > 1] == []


@pytest.mark.parametrize("given", ["zzqqxx", "contract.zzqqxx"])
def test_an_unknown_path_without_a_near_one_names_the_list(given, ran):
    error = ran(2, "plan", "default", "--set", f"{given}=3").err
    assert "`llmperf cases default` lists those that exist" in error or "did you mean" in error
    assert len(error) < 250
