"""What extensions record of a rank: the kinds that they may use, and the records that they may write."""

from types import SimpleNamespace

import pytest
from llmperf import hookimpl
from llmperf.errors import PluginError
from llmperf.measuring.loop import MeasuredLoop
from llmperf.measuring.worker import further_records
from llmperf.plugins.discovery import Found
from llmperf.plugins.loading import Plugins
from llmperf.types import FurtherRecord, RankRecords


def recorders(plan, *parts):
    """What the core and an extension for each of the parts record of rank 0."""
    plugins = Plugins()
    for number, part in enumerate(parts):
        answer = hookimpl(lambda part=part: [part], specname="llmperf_rank_records")
        plugins.register(SimpleNamespace(answer=answer), Found(f"acme{number}", "extension", "acme", "acme", "1.0"))
    return further_records(plugins, plan, 0, object())


def test_extensions_record_under_kinds_of_their_own(stub_plan):
    faults, waits = RankRecords(kind="acme_faults"), RankRecords(kind="acme_waits")
    assert recorders(stub_plan(), faults, waits) == [faults, waits]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (["acme"], "expected RankRecords, found str"),
        ([RankRecords(kind="step")], "expected a kind of its own, found 'step', which is that of core"),
        ([RankRecords(kind="Acme")], "expected a kind of its own, found 'Acme'"),
        ([RankRecords(kind="acme"), RankRecords(kind="acme")], "found 'acme', which is that of .*'acme0'"),
    ],
)
def test_other_kinds_are_errors_that_name_the_package(stub_plan, parts, message):
    with pytest.raises(PluginError, match=f"extension 'acme{len(parts) - 1}'.*: llmperf_rank_records: .*{message}"):
        recorders(stub_plan(), *parts)


@pytest.mark.parametrize("record", [7, FurtherRecord(kind="acme", rank=1, line=b""), RankRecords(kind="acme")])
def test_a_record_is_of_its_kind_and_rank(record):
    loop = MeasuredLoop(object(), object(), object(), 0)
    with pytest.raises(PluginError, match="expected a record of kind 'acme' of rank 0, found "):
        loop._record_further(RankRecords(kind="acme"), record)
