"""Names that a package of other people uses and that are gone: `llmperf plugins` says so before a run needs them."""

import json

import pytest
from llmperf.plugins.discovery import find
from llmperf_inspect.used_names import _place, missing_name

PLUGIN = """
import llmperf
from llmperf import hookimpl

@hookimpl
def llmperf_catalogue():
    {statement}
    return []
"""


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("from llmperf import of_one_model", "llmperf.of_one_model is now llmperf_vendorkit.of_one_model"),
        ("llmperf.PeakTable", "llmperf.PeakTable is now llmperf_vendorkit.PeakTable"),
        ("from llmperf.types import Colour", "llmperf.types has no Colour"),
        ("from llmperf.colours import Red", "there is no module llmperf.colours"),
        ("from llmperf_pytorch.models import DTYPES", "llmperf_pytorch.models has no DTYPES"),
        ("from llmperf_pytorch.llama import Llama", "there is no module llmperf_pytorch.llama"),
        ("from llmperf.types import Problem", None),
        ("from llmperf.vendorkit import PeakTable", None),
        ("from llmperf import types", None),
        ("from llmperf_pytorch import Feed", None),
        ("from llmperf_nowhere import anything", None),
        ("llmperf.standard_layout", None),
        ("llmperf.__version__", None),
        ("import gone_library", None),
    ],
)
def test_a_name_that_is_gone_is_found_without_importing_it(install, statement, problem):
    install("llmperf-user", "user", PLUGIN.replace("{statement}", statement))
    line = missing_name(find("vendor", "user"))
    assert line == (problem and f"vendor 'user' (llmperf-user): llmperf_user.py, line 7: {problem}")


@pytest.fixture(autouse=True)
def nothing_kept():
    """What a former test has installed is not there any more."""
    _place.cache_clear()


def test_what_a_try_guards_or_type_checkers_see_is_left_out(install):
    guarded = "try:\n        from llmperf import Newer\n    except ImportError:\n        pass"
    checked = "from typing import TYPE_CHECKING\n    if TYPE_CHECKING:\n        from llmperf.types import Newer"
    for number, statement in enumerate((guarded, checked)):
        install(f"llmperf-user{number}", f"user{number}", PLUGIN.replace("{statement}", statement))
        assert missing_name(find("vendor", f"user{number}")) is None


def test_the_listing_and_doctor_say_what_the_first_hook_would_fail_for(install, ran):
    install("llmperf-user", "user", PLUGIN.replace("{statement}", "from llmperf import tool_output"))
    expected = "llmperf_user.py, line 7: llmperf.tool_output is now llmperf_vendorkit.tool_output"
    rows = {row["name"]: row["state"] for row in json.loads(ran(0, "plugins", "--json").out)}
    assert rows["user"] == f"broken: vendor 'user' (llmperf-user): {expected}"
    assert rows["cpu"] == "ok"
