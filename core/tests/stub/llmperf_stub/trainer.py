import atexit
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from llmperf.types import StepOutput

from llmperf_stub.device import StubDevice
from llmperf_stub.torch.distributed import arrive, barrier


class StubTrainer:
    """`spec.framework`: step_seconds, in_step (True, False, "device", "host"), fault (with fault_rank, fault_step),
    tokens (a rank and step), evaluation_seconds, child, hidden_child, chatters, listens, waits_at_build, clock_set
    (seconds by which somebody sets the rank's wall clock in fault_step), sampled (fault_step lasts until the devices
    have been read)."""

    def __init__(self, plan):
        options = plan.spec.framework
        self.parameter_count = options.get("parameters", plan.flops.parameters)
        self.rank = int(os.environ["RANK"])
        self.world = int(os.environ["WORLD_SIZE"])
        self.run = Path(os.environ["LLMPERF_RUN_DIR"])
        self.barrier = self.run / "barrier"
        if plan.layout.nodes > 1:  # on one machine in tests, with a run folder for each
            self.barrier = Path(tempfile.gettempdir()) / f"stub-barrier-{plan.run_id}"
        self.seconds = options.get("step_seconds", 0.01)
        self.in_step = options.get("in_step", True)
        self.tokens = options.get("tokens", plan.batch.tokens_per_step // self.world)
        self.fault = options.get("fault") if options.get("fault_rank", 1) in (self.rank, "all") else None
        self.fault_step = options.get("fault_step", 5)
        self.evaluation_seconds = options.get("evaluation_seconds")
        self.chatters = options.get("chatters", False)
        self.sampled = options.get("sampled", False)
        self.step = 0
        self.clock_set, self.off, real = options.get("clock_set"), 0.0, time.time
        time.time = lambda: real() + self.off
        print(f"rank {self.rank}: ready", flush=True)
        if options.get("child"):
            subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
        if options.get("listens") and self.rank == 0:
            self.listener = socket.create_server((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])))
        if options.get("hidden_child"):
            code = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(600)"
            path = self.run / f"hidden-{self.rank}"
            subprocess.Popen([sys.executable, "-I", "-c", code, str(path)], env={}, start_new_session=True)
            while not path.exists() or not path.read_text():
                time.sleep(0.01)
        if self.fault == "leave at build":
            os._exit(0)
        if options.get("waits_at_build"):
            time.sleep(600)
        if self.fault == "raise at build":
            raise RuntimeError("no such layer")
        if self.fault == "tells secrets":
            print("\n".join(f"{name}={value}" for name, value in os.environ.items()), flush=True)
            raise RuntimeError(f"denied: {os.environ['HF_TOKEN']} and {os.environ['STUB_PASSWORD']}")

    def train_step(self):
        if self.clock_set and self.step == self.fault_step:
            self.off = self.clock_set
        if self.fault and self.step == self.fault_step:
            getattr(self, self.fault.replace(" ", "_"), self.nothing)()
        if self.sampled and self.step == self.fault_step:
            self.wait_for_samples()
        if self.chatters:
            self.chatter()
        if self.in_step == "device":
            arrive(self.barrier, self.step, self.rank)
            StubDevice.pending = (self.barrier, self.step, self.world)
        elif self.in_step == "host":  # as a host whose queue to the device is full: no frame says that it waits
            arrive(self.barrier, self.step, self.rank)
            files = [self.barrier / f"{self.step}-{other}" for other in range(self.world)]
            while any(not file.exists() for file in files):
                time.sleep(0.002)
        elif self.in_step:
            barrier(self.barrier, self.step, self.rank, self.world)
        time.sleep(self.seconds)
        loss = 10.0 / (self.step + 1)
        if self.fault == "nan" and self.step == self.fault_step:
            loss = float("nan")
        self.step += 1
        return StepOutput(loss=loss, tokens=self.tokens, grad_norm=1.5)

    def nothing(self):
        pass

    def raises(self):
        raise ValueError(f"rank {self.rank} has had enough")

    def exits(self):
        sys.exit(0)

    def leaves(self):
        os._exit(0)

    def vanishes(self):
        os._exit(7)

    def takes_all_memory(self):
        taken = []
        while True:
            taken.append(b"x" * 2**25)

    def killed(self):
        os.kill(os.getpid(), signal.SIGKILL)

    def hangs(self):
        print(f"rank {self.rank}: going to sleep", flush=True)
        time.sleep(600)

    def stops(self):
        os.kill(os.getpid(), signal.SIGSTOP)

    def waits_for_nobody(self):
        barrier(self.barrier, self.fault_step, self.rank, self.world + 1)

    def deaf(self):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self.hangs()

    def aborts_while_the_interpreter_ends(self):
        atexit.register(os.abort)

    def chatter(self):
        """A MiB of numbered lines; the file says how many MiB have been printed."""
        sys.stdout.write("".join(f"step {self.step} line {line:06} {'x' * 40}\n" for line in range(16384)))
        sys.stdout.flush()
        written = self.run / f"printing-{self.rank}"
        written.write_text(str(self.step))
        written.rename(self.run / f"printed-{self.rank}")  # a rank may be killed at any moment

    def wait_for_samples(self):
        """The second that is written from now on has been taken from now on."""
        path = self.run / "memory.jsonl"
        read = path.read_bytes().count(b"\n") if path.exists() else 0
        while not path.exists() or path.read_bytes().count(b"\n") < read + 2:
            time.sleep(0.01)

    def fills_disk(self):
        with (self.run / "filler").open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                pass

    def evaluate(self):
        if self.fault == "evaluates to nan":
            return {"score": float("nan"), "other": 0.25}
        if self.fault == "evaluates to nothing":
            return None
        if self.fault == "evaluates to words":
            return {"score": "good"}
        return {"score": 0.5} if self.evaluation_seconds is None else self.slowly()

    def slowly(self):
        for _ in range(int(self.evaluation_seconds / 0.1)):
            time.sleep(0.1)
            yield {}
        yield {"score": 0.5}
        yield {"score/part": 0.25}

    def close(self):
        print(f"rank {self.rank}: closed", flush=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
