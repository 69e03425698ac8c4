"""Starts ranks as forks of one process that has imported their frameworks, which takes longer than training.

`fork_ranks.py PROGRAM MODULE...`; then each line of standard input is `{"words": [...], "ranks": [{"log": PATH, "env":
{...}}]}`: as many processes run `PROGRAM WORDS`, and a line with their exit codes is printed. No thread may run here.
"""

import json
import os
import runpy
import sys
import traceback
from importlib import import_module


def run_rank(program, words, rank):
    """Be one rank; it leaves with `os._exit`."""
    log = os.open(rank["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ.update(rank["env"])
    sys.argv = [program, *words]
    code = 1
    try:
        runpy.run_path(program, run_name="__main__")
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def main():
    """Fork for each line, until standard input ends."""
    program, *modules = sys.argv[1:]
    for module in modules:
        import_module(module)
    for line in iter(sys.stdin.readline, ""):
        launch = json.loads(line)
        started = []
        for rank in launch["ranks"]:
            started.append(os.fork())
            if started[-1] == 0:
                run_rank(program, launch["words"], rank)
        codes = [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in started]
        print(json.dumps(codes), flush=True)


if __name__ == "__main__":
    main()
