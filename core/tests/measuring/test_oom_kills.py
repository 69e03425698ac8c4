"""The kernel's counts of processes that it killed for lack of memory."""

import pytest
from llmperf.measuring.processes import OomKills, oom_kills

EVENTS = "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0\n"


@pytest.fixture
def kernel(tmp_path):
    """A function that writes files of the kernel and reads the counters from them."""

    def read(groups="0::/job/step\n", vmstat="pgfault 1\noom_kill 7\n", own=None):
        (tmp_path / "proc" / "self").mkdir(parents=True)
        (tmp_path / "proc" / "self" / "cgroup").write_text(groups)
        (tmp_path / "proc" / "vmstat").write_text(vmstat)
        for path, text in [own] if own else []:
            file = tmp_path / "cgroup" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return oom_kills(tmp_path / "proc", tmp_path / "cgroup")

    return read


@pytest.mark.parametrize(
    ("files", "counts"),
    [
        ({"own": ("job/step/memory.events", EVENTS)}, (2, 7)),
        ({"own": ("memory.events", EVENTS)}, (2, 7)),  # a container sees its group as the root
        ({"groups": "4:cpu,memory:/job\n0::/\n", "own": ("memory/job/memory.oom_control", "under_oom 0\noom_kill 5\n")},
         (5, 7)),  # version 1
        ({"groups": "", "vmstat": "pgfault 1\n"}, (None, None)),
    ],
)  # fmt: skip
def test_the_kills_of_the_own_group_and_of_the_host_are_read(kernel, files, counts):
    assert kernel(**files) == OomKills(*counts)


def test_kills_in_other_groups_do_not_count_where_the_own_group_is_known():
    assert OomKills(1, 9).risen_since(OomKills(0, 9))
    assert not OomKills(0, 9).risen_since(OomKills(0, 8))
    assert OomKills(None, 9).risen_since(OomKills(None, 8))
    assert not OomKills(None, None).risen_since(OomKills(None, None))
