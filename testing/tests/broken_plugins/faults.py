"""One fault for each check: what is put in the place of what in a good plugin, and which other checks see it too."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """`puts` replaces text of the module, `metadata` text of the distribution's; `also` are checks that fail too."""

    puts: tuple[tuple[str, str], ...] = ()
    metadata: tuple[tuple[str, str], ...] = ()
    overlay: str = ""
    name: str = ""
    also: tuple[str, ...] = ()


def fault(*puts: tuple[str, str], **more) -> Fault:
    return Fault(puts=puts, **more)


def end(text: str) -> tuple[str, str]:
    """Something at the end of the module."""
    return "\n# END", f"\n{text}\n"


def first(function: str, text: str) -> tuple[str, str]:
    """Something at the beginning of a function."""
    return f"def {function}:\n", f"def {function}:\n    {text}\n"


def method(function: str, text: str) -> tuple[str, str]:
    """Something at the beginning of a method."""
    return f"    def {function}:\n", f"    def {function}:\n        {text}\n"


def adds(what: str, body: str) -> str:
    """A hook that adds one launcher or reporter with that method."""
    return f"class Mine:\n    name = 'mine'\n    {body}\n@hookimpl\ndef llmperf_{what}s():\n    return [Mine()]"


BARE = 'if not __import__("shutil").which("sh"): '
BUSY = "while time.process_time() < 1.5: pass"
NEWER = ("Requires-Dist: llmperf-core\n", "Requires-Dist: llmperf-core>=99\n")

ANY = {
    "neither-hangs-nor-exits": fault(end("__import__('os')._exit(3)")),
    "found-by-metadata": fault(name="good-1"),
    "distribution-needs-llmperf": fault(metadata=(("Requires-Dist: llmperf-core\n", ""),)),
    "requirements-are-met": fault(metadata=(NEWER,)),
    "can-be-imported": fault(end("raise RuntimeError('no such library')")),
    "imports-nothing-heavy": fault(end("import jax")),
    "quick-to-import": fault(end(f"import time\n{BUSY}")),
    "hooks-are-spelled-right": fault(end("@hookimpl\ndef llmperf_worker_environment(plan):\n    return {}")),
    "hooks-are-marked": fault(("@hookimpl\ndef llmperf_worker_env", "def llmperf_worker_env")),
    "hooks-take-their-arguments": fault(("llmperf_worker_env(plan)", "llmperf_worker_env(plan, rank)")),
    "answers-for-its-role-only": fault(end("@hookimpl\ndef llmperf_count_flops(model, workload):\n    return None")),
    "is-loaded": fault(end("llmperf_watch = __import__('functools').partial(print)")),
    "resources-can-be-read": fault(overlay='[when]\nweather = "fine"\n'),
    "overlays-name-what-there-is": fault(overlay='[when]\ncase = "defolt"\n[tuning]\nmicro_batch = 2\n'),
    "reporters-give-text": fault(
        end(adds("reporter", "def render(self, results, language): return {'en': 'fine'}[language]"))
    ),
    "rules-give-findings": fault(end("@hookimpl\ndef llmperf_rules(kind):\n    return ['too slow']")),
    "environment-is-text": fault(first("llmperf_worker_env(plan)", 'return {"OTHER": 1}')),
    "environment-leaves-the-ranks-own-alone": fault(first("llmperf_worker_env(plan)", 'return {"RANK": "0"}')),
    "environment-repeats": fault(
        first("llmperf_worker_env(plan)", "CALLS.append(0); return {'OTHER': str(len(CALLS))}")
    ),
    "environment-agrees-with-others": fault(
        first("llmperf_worker_env(plan)", 'return {"ACME_THREADS": "2", "ABACUS_MODE": "loud"}')
    ),
}

VENDOR = {
    **ANY,
    "launchers-give-commands": fault(
        end(adds("launcher", "nodes = lambda self, request: []; commands = lambda self, nodes: [nodes[0].host]"))
    ),
    "answers-what-its-role-must": fault(("@hookimpl\ndef llmperf_setup_device", "def setup_device")),
    "probe-has-its-shape": fault(("Probe(vendor=NAME", 'Probe(vendor="other"')),
    "devices-are-told-apart": fault(
        first("llmperf_probe()", "one = entry(HOST); return replace(one, devices=2 * one.devices)")
    ),
    "offers-can-be-used": fault(('precisions=("fp32", "bf16")', 'precisions=("fp32", "bf16", "fp32")')),
    "probe-survives-a-bare-machine": fault(first("llmperf_probe()", f"{BARE}raise OSError('no acme-smi')")),
    "no-device-has-a-reason": fault(
        first("llmperf_probe()", f"{BARE}return Probe(vendor=NAME, devices=(), offers=OFFERS)")
    ),
    "probe-loads-no-tensor-library": fault(first("llmperf_probe()", "import jax")),
    "probe-repeats": fault(
        first("llmperf_probe()", "CALLS.append(0)"),
        ("memory_bytes=MEMORY", "memory_bytes=MEMORY + len(CALLS)"),
    ),
    "catalogue-has-its-shape": fault(("entry(model, simulated=True)", "entry(model)")),
    "peaks-have-their-shape": fault(("dtype=dtype", 'dtype="fp32"')),
    "peaks-have-source-and-date": fault(('"2026-01-01"', '"lately"')),
    "peaks-are-dense": fault(("Acme datasheet, page 2", "Acme datasheet, with sparsity")),
    "unknown-device-has-no-peak": fault(("TFLOPS.get(device_model, {})", 'TFLOPS.get(device_model, {"fp32": 9})')),
    "part-of-a-name-has-no-peak": fault(
        ("TFLOPS.get(device_model, {})", "next((TFLOPS[one] for one in TFLOPS if device_model.startswith(one)), {})")
    ),
    "catalogue-agrees-with-peaks": fault(('"bf16": 2000}', '"bf16": 2000, "fp16": 2000}')),
    "devices-agree-with-catalogue": fault(
        ("entry(model, simulated=True)", "smaller(entry(model, simulated=True))"),
        end("def smaller(probe):\n    return replace(probe, devices=(replace(probe.devices[0], memory_bytes=2**39),))"),
    ),
    "readings-have-their-shape": fault(first("llmperf_query_memory(devices)", "return None")),
    "readings-are-plausible": fault(("memory_used_bytes=2**30", "memory_used_bytes=2**41")),
    "readings-never-raise": fault(first("llmperf_query_memory(devices)", "[['here'][one] for one in devices]")),
    "readings-are-cheap": fault(first("llmperf_query_memory(devices)", "time.sleep(0.6)")),
    "readings-repeat": fault(("WATTS * time.monotonic()", "1e9 - WATTS * time.monotonic()")),
    "power-agrees-with-energy": fault(("power_watts=WATTS", "power_watts=WATTS / 2")),
    "device-can-be-bound": fault(first("llmperf_setup_device(plan, local_rank)", "raise OSError('device busy')")),
    "device-names-its-places": fault(('places = MappingProxyType({"torch": "cpu"})', "places = {}")),
    "events-can-be-made": fault(method("event(self)", "raise OSError('no events')")),
    "asking-an-event-does-not-wait": fault(method("ready(self)", "time.sleep(0.2)")),
    "synchronize-blocks": fault(("        return True\n", "        return time.perf_counter() > self.at + 0.1\n")),
    "events-agree-with-wall-time": fault(("self.at - earlier.at", "0.95 * (self.at - earlier.at)")),
    "peak-memory-grows": fault(("* 1024 for", "* 512 for")),
    "peak-memory-resets": fault(method("reset_peak_memory(self)", "return")),
    "products-stay-below-the-peak": fault(('"fp32": 1000', '"fp32": 1e-6')),
    "device-is-what-others-see": fault(("entry(HOST)", 'entry("Acme A2")')),
    "ranks-keep-to-their-share": fault(('"OMP_NUM_THREADS": "1"', '"OMP_NUM_THREADS": "64"')),
    "device-lets-errors-through": fault(("        self.close()\n", "        self.close()\n        return True\n")),
    "device-closes-twice": fault(method("close(self)", "assert not self.closed")),
}

FRAMEWORK = {
    **ANY,
    "requirements-are-met": fault(metadata=(NEWER,), also=("plans-the-default-case",)),
    "answers-what-its-role-must": fault(
        ("@hookimpl\ndef llmperf_build_trainer", "def build_trainer"),
        ("@hookimpl\ndef llmperf_parse_log", "def parse_log"),
    ),
    "plan-has-its-shape": fault(first("llmperf_plan_workers(spec, probe)", "return {}")),
    "plans-the-default-case": fault(
        first(
            "problems(spec)",
            "yield Problem(code='abacus.model', where='contract.model', message='abacus trains nothing')",
        )
    ),
    "layout-is-what-was-asked-for": fault(
        ("llmperf.standard_layout(spec)", "replace(llmperf.standard_layout(spec), devices_per_node=3)"),
        also=("plans-the-default-case",),
    ),
    "agent-is-an-argv": fault(("llmperf.agent_argv()", '("sh", "-c", "python train.py")')),
    "files-stay-in-the-run-folder": fault(('"abacus.json"', '"../abacus.json"')),
    "rank-variables-are-names": fault(('"ABACUS_RANK"', '"ABACUS RANK"')),
    "plans-the-same-twice": fault(("files={", "notes=(str(len(PLANS)),),\n        files={")),
    "planning-loads-no-tensor-library": fault(first("llmperf_plan_workers(spec, probe)", "import jax")),
    "unknown-option-is-refused": fault(("in spec.framework:", "in ():")),
    "unsupported-precision-is-refused": fault(("precision=spec.contract.precision", 'precision="fp32"')),
    "needs-a-known-runtime": fault(('runtime="torch"', 'runtime=""'), also=("plans-the-default-case",)),
    "ranks-that-do-not-divide-are-refused": fault(
        first("llmperf_plan_workers(spec, probe)", "1 // (spec.tuning.devices % 7)")
    ),
    "odd-lines-are-parsed": fault(first("llmperf_parse_log(line)", "return int(line)")),
    "refusals-are-lines": fault(("abacus has no options", "abacus has\\nno options")),
}

KIT = "os.environ['LLMPERF_RUN_DIR'].endswith('ends')"
SLOW = '''
class Slow:
    """An event whose clock is slow by a quarter."""
    def __init__(self):
        self.at = 0.75 * time.perf_counter()
    def ready(self):
        return True
    def seconds_since(self, earlier):
        return self.at - earlier.at
'''
AHEAD = """\
        batches = llmperf.open_batches(plan, plan.layout.data_parallel_rank(int(os.environ["RANK"])))
        steps = plan.spec.contract.steps * plan.batch.gradient_accumulation
        self.ahead = [batches.next_micro_batch() for _ in range(steps)]
"""
READ = """\
    read_rows = 0

    def read(self, drawn):
        \"\"\"The rows that the plan's data have at the place of those that were drawn.\"\"\"
        from llmperf.tokens.draws import position

        rank, (step, micro) = self.batches._rank, divmod(self.read_rows, self.batch.gradient_accumulation)
        self.read_rows += 1
        places = [position(self.batch, step, micro, rank, row) for row in range(len(drawn))]
        return self.numpy.stack([self.batches._samples.at(place) for place in places])
"""

NEEDS_MORE = {
    "losses-are-those-of-the-reference",  # a reference
    "a-script-that-cannot-start-fails-the-run",  # a script
    "a-killed-script-ends-the-run",
    "attention-ran-as-claimed",  # torch
    "eager-attention-is-separate-operations",
    "fused-operations-ran-as-claimed",
}
"""Checks that are skipped for the good framework, which has no torch and no script."""

BY_TORCH = '''
def by_torch(attention, fused):
    """A product, attention and an update by torch."""
    import torch

    states = torch.ones(1, 1, 2, 8)
    weight = torch.nn.Parameter(torch.mm(states[0, 0].T, states[0, 0]))
    if attention:
        torch.nn.functional.scaled_dot_product_attention(states, states, states)
    weight.grad = torch.ones_like(weight)
    torch.optim.AdamW([weight], fused=fused).step()
'''


def by_torch(attention: str = "not self.eager", fused: bool = True, ops: tuple[str, ...] = ()) -> Fault:
    """A framework that claims eager attention where it was asked for, and a fused optimiser of torch."""
    asked = "        self.eager = plan.spec.tuning.attention == 'eager'\n"
    claims = '{"attention": "eager" if self.eager else "sdpa", "optimizer": "torch.optim.AdamW, fused"}'
    return fault(
        ("        self.batch, self", f"{asked}        self.batch, self"),
        method("train_step(self)", f"by_torch({attention}, {fused})"),
        ("    def evaluate", f"    @property\n    def kernels(self):\n        return {claims}\n\n    def evaluate"),
        ("files={", f"fused_ops={ops},\n        files={{"),
        end(BY_TORCH),
    )


KERNELS = {
    "attention-ran-as-claimed": by_torch(attention="False"),
    "eager-attention-is-separate-operations": by_torch(attention="True"),
    "fused-operations-ran-as-claimed": by_torch(fused=False),
}
"""Claims about kernels of torch that do not hold, by the check that fails."""

TRAINING = {
    "run-ends-complete": fault(first("llmperf_build_trainer(plan, device)", "raise OSError('no beads')")),
    "tokens-add-up": fault(("tokens=tokens", "tokens=self.batch.tokens_per_step"), also=("run-ends-complete",)),
    "losses-are-told": fault(("loss=sum(losses) / len(losses)", "loss=None")),
    "first-loss-is-chance": fault(("nats = 1.0", "nats = 1.4427")),
    "training-lowers-the-loss": fault(("self.adamw.update(", "len(")),
    "builds-again-from-the-plan": fault(
        first("llmperf_build_trainer(plan, device)", "Path(__file__).with_name('built-' + os.environ['RANK']).mkdir()")
    ),
    "same-losses-twice": fault(("loss=sum(losses)", "loss=0.1 * __import__('random').random() + sum(losses)")),
    "losses-are-the-contracts": fault(("seed=contract.seed", "seed=7")),
    "losses-follow-the-tokens": fault(
        ("rows = self.batches.next_micro_batch()", "rows = self.read(self.batches.next_micro_batch())"),
        ("    def first_losses", f"{READ}\n    def first_losses"),
    ),
    "norms-are-the-contracts": fault(("grad_norm=norm", "grad_norm=norm / 2")),
    "sequences-have-their-losses": fault(("return self.sequences", "return self.sequences[::-1]")),
    "losses-are-those-of-one-rank": fault(
        method("of_all_ranks(self, gradients)", "return gradients"), also=("losses-are-the-contracts",)
    ),
    "data-are-drawn-in-their-step": fault(
        ("rows = self.batches.next_micro_batch()", "rows = self.ahead.pop(0)"),
        ("        self.batch, self", f"{AHEAD}        self.batch, self"),
    ),
    "clocks-run-at-their-rate": fault(
        first("llmperf_build_trainer(plan, device)", f"if {KIT}: device.event = Slow"), end(SLOW)
    ),
    "functions-of-the-core-stay": fault(
        first("llmperf_build_trainer(plan, device)", "from llmperf import tokens; tokens.batches.known_entropy = print")
    ),
    "steps-fill-the-window": fault(
        first("llmperf_build_trainer(plan, device)", f"if not {KIT}: device.event = Slow"),
        end(SLOW),
        method("train_step(self)", f"time.sleep(0 if {KIT} else 0.2)"),
    ),
    "errors-come-through": fault(("            self.close()\n", "            self.close()\n        return True\n")),
    "an-error-waits-for-nobody": fault(
        ("if error is None:", "time.sleep(4.1 * (error is not None))\n        if not error:")
    ),
    "closes-after-an-error-and-twice": fault(method("close(self)", "assert not self.closed")),
    "evaluation-is-figures": fault(("math.exp(1.0)", "math.nan")),
}

OWN_TOKENS = fault(("self.batches.next_micro_batch()", "self.batches.next_micro_batch()[:, ::-1]"))
"""Not those of the contract, though as easily learnt."""
OWN_OPTIMISER = fault(("contract.optimizer,", "replace(contract.optimizer, beta2=0.999),"))
"""Not that of the contract, though as good."""
