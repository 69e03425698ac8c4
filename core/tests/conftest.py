"""What the core's tests share: a vendor and a framework without tensors, and plans to run them by."""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path

import pytest
from llmperf.launching.agent import agent_argv
from llmperf.types import (
    Batch,
    Contract,
    FlopCount,
    FlopsPerToken,
    Layout,
    Model,
    Optimizer,
    PeakFlops,
    Plan,
    PluginInfo,
    RunSpec,
    Tuning,
)

STUB = Path(__file__).parent / "stub"
STUB_VERSION = "1.0"


@pytest.fixture
def stub_site(tmp_path_factory, monkeypatch):
    """The stub plugins `vendor stub` and `framework stub`, installed for this process and those it starts."""
    site = tmp_path_factory.mktemp("site")
    info = site / "llmperf_stub-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: llmperf-stub\nVersion: {STUB_VERSION}\n")
    (info / "entry_points.txt").write_text(
        "[llmperf.vendor.v1]\nstub = llmperf_stub.vendor\n[llmperf.framework.v1]\nstub = llmperf_stub.framework\n"
    )
    for path in (site, STUB):
        monkeypatch.syspath_prepend(str(path))
    before = os.environ.get("PYTHONPATH")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), str(STUB), *([before] if before else [])]))
    yield site
    for name in [name for name in sys.modules if name.split(".")[0] == "llmperf_stub"]:
        del sys.modules[name]


@pytest.fixture
def stub_plan(stub_site):
    """A function that makes a plan for the stub plugins: `stub_plan(steps=30, ranks=2, fault="raises")`."""
    return _stub_plan


def _stub_plan(
    steps=12, warmup_steps=2, ranks=2, stall_seconds=30.0, startup_seconds=30.0, env=None, **options
) -> Plan:
    from llmperf_stub.vendor import llmperf_peak_flops, llmperf_probe

    batch = 2 * ranks
    tuning = Tuning(framework="stub", devices=ranks, micro_batch=2)
    contract = Contract(
        model="stub",
        dataset="synthetic",
        seq_len=8,
        global_batch=batch,
        precision="fp32",
        optimizer=Optimizer(lr=1e-3),
        steps=steps,
        warmup_steps=warmup_steps,
    )
    peak: PeakFlops = llmperf_peak_flops("Stub S1", "fp32")
    return Plan(
        schema="llmperf/plan/1",
        run_id=f"stub-{secrets.token_hex(6)}",
        created="2026-01-01T00:00:00+00:00",
        llmperf_version="0",
        spec=RunSpec(case="stub", title="Stub", contract=contract, tuning=tuning, model=_model(), framework=options),
        vendor="stub",
        probe=llmperf_probe(),
        device_share=1 / ranks,
        layout=Layout(nodes=1, devices_per_node=ranks, tensor_parallel=1, pipeline_parallel=1, data_parallel=ranks),
        batch=Batch(
            micro_batch=2,
            gradient_accumulation=1,
            data_parallel=ranks,
            global_batch=batch,
            seq_len=8,
            tokens_per_step=8 * batch,
        ),
        flops=FlopCount(
            parameters=1000,
            embedding_parameters=100,
            nominal_parameters=1000,
            per_token=(FlopsPerToken(convention="nominal", flops=6000.0, formula="6 x 1000"),),
        ),
        peak=peak,
        needs=None,
        launcher="local",
        agent=agent_argv(),
        rank_env={"STUB_RANK": "{rank} of {world_size}"},
        env=env or {},
        files={"stub.json": "{}"},
        stall_seconds=stall_seconds,
        startup_seconds=startup_seconds,
        plugins=(
            PluginInfo(name="stub", role="vendor", distribution="llmperf-stub", version=STUB_VERSION),
            PluginInfo(name="stub", role="framework", distribution="llmperf-stub", version=STUB_VERSION),
        ),
    )


def _model() -> Model:
    return Model(
        name="stub",
        title="Stub",
        family="llama",
        nominal_parameters=1000,
        vocab_size=256,
        hidden_size=8,
        intermediate_size=16,
        layers=1,
        attention_heads=1,
        kv_heads=1,
        max_positions=64,
        norm_eps=1e-5,
        position_encoding="rope",
        rope_theta=1e4,
        source="a test",
    )
