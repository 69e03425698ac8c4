"""Names of hosts in the files of a run that is packed."""

import json
from dataclasses import replace

from llmperf.files import json_files
from llmperf.runfolder import filenames
from llmperf.types import FailureRecord, Node
from llmperf_verify.pack_command import replacements, without_host_names


def planned(stub_plan, *nodes):
    return replace(stub_plan(steps=6), nodes=tuple(Node(host=host, address=address) for host, address in nodes))


def test_hosts_and_addresses_get_numbers_and_this_machine_keeps_its_names(stub_plan):
    plan = planned(stub_plan, ("gpu-1", "10.0.0.1"), ("gpu-2", "gpu-2"), ("localhost", "127.0.0.1"))
    assert replacements(plan) == {"gpu-1": "node-000", "gpu-2": "node-001", "10.0.0.1": "address-000"}


def test_users_and_ports_are_hidden_with_the_host(stub_plan):
    plan = planned(stub_plan, ("amy@gpu-1:2222", "gpu-1"), ("gpu-2", "10.0.0.2"), ("::1", "fe80::1"))
    known = {"amy@gpu-1:2222": "node-000", "gpu-1": "node-000", "gpu-2": "node-001"}
    assert replacements(plan) == {**known, "10.0.0.2": "address-001", "fe80::1": "address-002"}


def failure_of(stub_plan, message):
    """The message of a failure record after names were hidden."""
    from llmperf_verify.pack_command import _hidden, _hiding

    plan = planned(stub_plan, ("gpu-1", "10.0.0.1"), ("gpu-10", "10.0.0.10"))
    record = FailureRecord(rank=0, at=1.0, exception="RuntimeError", message=message, traceback="")
    data = json_files.encode(record) + b"\n" + b'{"kind":"failure","cut'
    name = f"{filenames.RECORDS}/rank-00000.jsonl"
    first, rest = _hidden(name, data, _hiding(replacements(plan))).split(b"\n")
    assert rest == b'{"kind":"failure","cut'
    return json.loads(first)["message"]


def test_only_whole_names_are_replaced(stub_plan):
    text = "gpu-1: cannot reach 10.0.0.10:29500 and gpu-10, gpu-1.lab and 110.0.0.1 are others"
    expected = "node-000: cannot reach address-001:29500 and node-001, gpu-1.lab and 110.0.0.1 are others"
    assert failure_of(stub_plan, text) == expected


def test_files_of_a_run_on_this_machine_are_kept_byte_by_byte(stub_plan):
    plan = planned(stub_plan, ("localhost", "127.0.0.1"))
    files = {filenames.PLAN: json_files.encode(plan), filenames.RESULT: b"as it is"}
    assert without_host_names(files) == files
