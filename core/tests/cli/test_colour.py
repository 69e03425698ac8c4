"""Colours: which output has them, and who decides."""

import json

import pytest
from llmperf.cli.main import call
from llmperf.validation.catalogue import open_catalogue

ESCAPE = "\x1b["
RED, YELLOW, GREEN = (f"\x1b[{code}m" for code in (31, 33, 32))


@pytest.fixture
def runs(tmp_path, example, saved):
    """A complete run with a finding, a failed one, and another on the same contract."""
    failure = {"rank": 1, "reason": "killed", "exception": None, "message": "rank 1 was killed", "log_tail": []}
    changes = {
        "good": {},
        "other": {},
        "bad": {"status": "failed", "failure": failure},
    }
    for number, (name, changed) in enumerate(changes.items()):
        document = json.loads(json.dumps(example)) | {"run_id": name} | changed
        document["files"]["records/rank-00000.jsonl"] = f"{number:064x}"
        document["loss_curve"] = [
            {"step": step, "loss": 8.0 - 0.1 * step + 0.01 * number, "nonfinite": None, "grad_norm": None}
            for step in range(1, 9)
        ]
        first, last = (document["loss_curve"][place]["loss"] for place in (0, -1))
        document["metrics"] |= {"first_loss": first, "final_loss": last + (name == "good")}
        saved(tmp_path / name / "result.json", document)
    (tmp_path / "broken" / "run").mkdir(parents=True)
    (tmp_path / "broken" / "run" / "result.json").write_text('{"schema": "llmperf/result/1"}')
    return tmp_path


COMMANDS = {
    "doctor": ["doctor"],
    "align": ["align", "good", "other", "--from-step", "1"],
    "validate": ["validate", "good"],
    "report": ["report", "good", "bad"],
    "card": ["report", "bad"],
    "error": ["rum"],
    "missing": ["report", "nowhere"],
}


@pytest.mark.parametrize(
    "words",
    [pytest.param(words, id=name, marks=[pytest.mark.slow] * (name != "validate")) for name, words in COMMANDS.items()],
)
def test_every_command_has_colours_on_a_terminal_and_honours_no_color(runs, words, on_a_terminal):
    assert ESCAPE in on_a_terminal(*words, cwd=runs)
    assert ESCAPE not in on_a_terminal(*words, cwd=runs, NO_COLOR="1")
    assert ESCAPE not in on_a_terminal(*words, cwd=runs, TERM="dumb")


@pytest.fixture
def piped(runs, monkeypatch, capsys):
    """A function that gives standard output and standard error of a command without a terminal."""
    monkeypatch.chdir(runs)
    monkeypatch.delenv("NO_COLOR", raising=False)

    def run(*words, **environment):
        with monkeypatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            call(list(words))
        return "".join(capsys.readouterr())

    return run


def test_what_decides_when_there_is_no_terminal(piped):
    words = ["report", "good", "bad"]
    assert ESCAPE not in piped(*words)
    assert ESCAPE in piped(*words, FORCE_COLOR="1")
    assert ESCAPE not in piped(*words, FORCE_COLOR="1", NO_COLOR="1")
    assert ESCAPE not in piped(*words, "--color", "never", FORCE_COLOR="1")
    assert ESCAPE in piped(*words, "--color", "always", NO_COLOR="1")
    assert ESCAPE in piped("--color", "always", *words)
    assert ESCAPE in piped("report", "nowhere", "--color", "always")


def test_a_file_has_no_colours(piped, runs):
    piped("report", "good", "bad", "--color", "always", "-o", "table.txt")
    assert ESCAPE not in (runs / "table.txt").read_text()


def test_colours_have_a_meaning(piped):
    several = piped("report", "good", "other", "bad", "--color", "always")
    assert f"{RED}failed" in several
    assert f"{RED}invalid: 1 error" in several
    assert f"{GREEN}complete" in several
    assert f"LP504 {RED}error" in piped("report", "good", "--color", "always")
    assert f"{YELLOW}warning" in piped("report", "good", "bad", "broken", "--color", "always")
    assert f"{RED}bad: NOT aligned" in piped("align", "bad", "good", "--color", "always")


def test_a_drawing_leaves_the_background_to_the_terminal(piped):
    drawn = piped("align", "good", "other", "--from-step", "1", "--color", "always")
    codes = {code for part in drawn.split(ESCAPE)[1:] for code in part.partition("m")[0].split(";")}
    assert ESCAPE in drawn
    assert not codes & {*(str(code) for code in [*range(40, 49), *range(100, 108)])}


def test_rules_are_chosen_by_the_beginning_of_their_code_in_either_case(wrong, ran):
    ran(0, "validate", wrong, "--select", "LP605")
    for code in ("LP6", "lp6"):
        assert "LP605" in ran(0, "validate", wrong, "--select", code).out
    lines = ran(0, "validate", wrong, "--ignore", "LP2", "--ignore", "LP3", "--ignore", "LP7", "--ignore", "lp605").out
    assert not any(code in lines for code in ("LP201", "LP605"))
    assert ran(0, "validate", "--explain", "lp301") == ran(0, "validate", "--explain", "LP301")


@pytest.mark.parametrize("option", ["--select", "--ignore", "--explain"])
def test_an_unknown_rule_is_refused_with_the_nearest(wrong, ran, option):
    every, near = "`llmperf validate --rules` lists all rules", "did you mean 'LP3"
    for code, advice in (("LP3081", f"{near}08'?"), ("XX1", every), ("", every), ("lp30x", near)):
        out, err = ran(2, "validate", option, code, wrong)
        assert (out, err.count("\n")) == ("", 1)
        assert f"{option}: unknown rule {code!r}; {advice}" in err


def test_every_rule_is_explained(ran):
    catalogue = open_catalogue()
    for code in (owned.rule.code for owned in catalogue.all_rules()):
        page = catalogue.page(code, "--explain")
        assert page.startswith(f"# {code}: ")
    assert ran(0, "validate", "--explain", code).out == page
