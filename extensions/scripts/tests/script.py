"""A stand-in for an external training script: `python script.py STEPS [FAULT]`. The last rank tells of the steps."""

import faulthandler
import os
import signal
import sys
import time

SECONDS = float(os.environ.get("SCRIPT_SECONDS", "0.02"))
LATE = 3
"""The step at which a fault shows."""

rank, last = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]) - 1
steps, fault = int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "none"


HELD_BACK = steps * 2 // 3 if fault == "in blocks" else 1
"""Lines that are written at once."""
held = []


def tell(text, end="\n"):
    if rank == last:
        held.append(text + end)
        if len(held) >= HELD_BACK:
            write_held()


def write_held():
    sys.stdout.write("".join(held))
    sys.stdout.flush()
    held.clear()


def step_line(step, loss):
    if fault in ("untimed", "fewer tokens"):
        tokens = int(os.environ["SCRIPT_TOKENS"]) - (fault == "fewer tokens")
        return f"did {step + 1} - {loss} {tokens} held {1000 + rank} 1.5"
    seconds = {"lies": 9.0, "wordy": "soon"}.get(fault, SECONDS)
    return f"{'ran' if fault == 'silent' else 'did'} {step + 1} {seconds} {loss}"


def main():
    if fault != "deaf":
        faulthandler.register(signal.SIGUSR1, all_threads=True)
    print(f"rank {rank} begins", flush=True)
    if fault == "leaves early":
        meet(fault)
    print(f"held {1000 + rank} 1.5", flush=True)
    for step in range(steps):
        time.sleep(SECONDS)
        if step == LATE:
            meet(fault)
        tell(step_line(step, 10 / (step + 1)))
        if rank == last and fault in ("none", "lies", "untimed"):
            wait_until_recorded(step + 1)
    write_held()
    print(f"held {2000 + rank} 1.5", flush=True)


def wait_until_recorded(count):
    """Have the next step begin after this one's line has been read, however busy the machine is."""
    path = os.path.join(os.environ["LLMPERF_RUN_DIR"], "records", f"rank-{rank:05}.jsonl")
    while True:
        with open(path) as file:
            if file.read().count('"kind":"step"') >= count:
                return
        time.sleep(0.001)


def meet(fault):
    if fault == "raises" and rank == last:
        raise RuntimeError("no more of this")
    if fault == "tells" and rank == last:
        print("failed StubError told before the end", flush=True)
        sys.exit(3)
    if fault == "killed" and rank == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    if fault in ("hangs", "deaf"):
        time.sleep(600)
    if fault == "nan":
        tell(step_line(LATE, "nan"))
        time.sleep(600)
    if fault == "ends" or (fault in ("leaves", "leaves early") and rank == 0):
        sys.stdout.flush()
        os._exit(0)
    if fault in ("leaves", "leaves early"):
        time.sleep(600)
    if fault == "odd":
        tell(step_line(LATE - 1, 7))  # again
        tell("x" * 200_000)
        tell("\x1b[31m\xe9\x00 did not", end="\r")
        os.write(1, b"\xff\xfe did\n")


main()
if fault == "child" and os.fork() == 0:  # it lives on and holds the pipe
    time.sleep(600)
if fault == "torn":
    tell("no newline at the end", end="")
sys.stdout.flush()
os._exit(0)
