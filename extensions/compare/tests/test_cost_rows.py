"""Cost in reports: prices that are named and dated, and never those that came with results."""

import csv
import io
import json
import re
from pathlib import Path

import pytest
from llmperf.cli.main import call

PRICES = Path(__file__).with_name("prices.toml").read_text()


@pytest.fixture
def run(tmp_path, example, monkeypatch):
    """A folder with the result of a run of 1,000 tokens a second on each of 8 devices."""
    folder = tmp_path / "work" / "runs" / "x"
    folder.mkdir(parents=True)
    example["hardware"] |= {"device_model": "NVIDIA H100 80GB", "device_share": 1.0, "nodes": 1, "devices_per_node": 8}
    example["metrics"] |= {"tokens_per_second_per_device": 1000.0, "joules_per_token": 0.36}
    (folder / "result.json").write_text(json.dumps(example))
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "prices.toml").write_text(PRICES)
    return folder


def values(capsys, *arguments):
    """The first row of a report for programs."""
    assert call(["report", *map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)[0]["rows"][0]


def test_cost_of_a_run(run, tmp_path, capsys):
    row = values(capsys, run, "--prices", tmp_path / "prices.toml", "--train-tokens", "3.6B")
    assert row["cost_per_million_tokens"] == pytest.approx(1.0)
    assert (row["train_tokens"], row["train_tokens_source"]) == (3_600_000_000, "as asked for (--train-tokens)")
    assert row["train_device_hours"] == pytest.approx(1000)
    assert row["train_seconds"] == pytest.approx(450_000)
    assert row["train_cost"] == pytest.approx(3600)
    assert row["train_energy_kwh"] == pytest.approx(360)
    assert row["train_electricity_cost"] == pytest.approx(90)
    assert (row["price"], row["price_currency"], row["price_date"]) == (3.6, "USD", "2026-11-01")
    assert row["price_source"] == "list price <b>"
    assert row["electricity_price_currency"] == "EUR"
    assert "no failures" in row["cost_assumes"]
    assert "storage" in row["cost_assumes"]


@pytest.mark.parametrize("form", ["terminal", "markdown", "csv"])
def test_every_format_shows_the_cost_and_what_it_assumes(run, tmp_path, ran, form):
    prices = ("--prices", str(tmp_path / "prices.toml"))
    text = ran(0, "report", run, "--format", form, *prices, "--train-tokens", "3.6e9").out
    assert "2026-11-01" in text
    assert "prices.toml" in text
    assert "no failures" in text
    if form == "csv":
        assert float(next(csv.DictReader(io.StringIO(text)))["train_cost"]) == pytest.approx(3600)
    else:
        assert "3,600 USD" in text
        assert "5.21 days on 8 devices" in text
    if form == "markdown":
        assert "<b>" not in text


def test_without_a_price_of_the_device_the_cost_is_unknown(run, tmp_path, ran, capsys):
    (tmp_path / "prices.toml").write_text(PRICES.replace("h100", "h200"))
    row = values(capsys, run, "--prices", tmp_path / "prices.toml", "--train-tokens", "1T")
    assert row["cost_per_million_tokens"] is None
    assert row["price"] is None
    assert "train_cost" not in row
    assert row["train_seconds"] == pytest.approx(1e12 / 8000)
    assert "has no price of NVIDIA H100 80GB" in ran(0, "report", run, "--prices", tmp_path / "prices.toml").out


def test_without_prices_and_tokens_nothing_is_said_of_cost(run, capsys):
    assert not [name for name in values(capsys, run) if "cost" in name or name.startswith(("price", "train_"))]


def test_prices_of_the_users_own_configuration_file(run, tmp_path, ran, capsys, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "own"))
    (tmp_path / "own" / "llmperf").mkdir(parents=True)
    (tmp_path / "own" / "llmperf" / "llmperf.toml").write_text(PRICES)
    row = values(capsys, run)
    assert row["cost_per_million_tokens"] == pytest.approx(1.0)
    assert row["price_file"].endswith("own/llmperf/llmperf.toml")
    assert row["train_tokens"] == 20 * row["parameters"]
    assert "Hoffmann" in row["train_tokens_source"]
    assert (
        f"\nprices: {tmp_path / 'own' / 'llmperf' / 'llmperf.toml'}, 2026-10-01 to 2026-11-01\n"
        in ran(0, "report", run).out
    )


@pytest.mark.parametrize("place", ["llmperf.toml", "runs/llmperf.toml", "runs/x/llmperf.toml"])
def test_prices_that_may_have_come_with_results_are_not_used(run, tmp_path, ran, monkeypatch, place):
    (tmp_path / "work" / place).write_text(PRICES)
    monkeypatch.chdir((tmp_path / "work" / place).parent)
    out, err = ran(0, "report", run, "--json")
    assert "cost_per_million_tokens" not in json.loads(out)[0]["rows"][0]
    assert "llmperf.toml: its prices are not used" in err
    assert "--prices" in err


@pytest.mark.parametrize(("change", "message"), [
    (("USD", "dollars"), "currency: expected three capital letters such as USD, found 'dollars'"),
    (("per_hour", "per_hours"), "per_hours"),
    (("3.6", "-1"), "expected at least 0"),
    (("2026-11-01", '"soon"'), "date"),
    (("list price <b>", " "), "source: expected where the price is from"),
    (('currency = "USD"', ""), "missing required field `currency`"),
])  # fmt: skip
def test_wrong_prices_are_refused_with_their_place(run, tmp_path, ran, change, message):
    (tmp_path / "prices.toml").write_text(PRICES.replace(*change))
    err = ran(2, "report", run, "--prices", tmp_path / "prices.toml").err
    assert message in err
    assert "prices.toml" in err
    assert len(err.splitlines()) == 1
    (tmp_path / "prices.toml").write_text("")
    assert 'expected a table [prices."DEVICE MODEL"]' in ran(2, "report", run, "--prices", tmp_path / "prices.toml").err


def test_a_number_of_tokens_that_is_none_is_refused(run, ran):
    assert "300B" in ran(2, "report", run, "--train-tokens", "many").err


def test_summary_has_the_cost_at_the_median(run, tmp_path, ran, saved):
    other = json.loads((run / "result.json").read_text())
    other["metrics"]["tokens_per_second_per_device"] = 3000.0
    other["run_id"], other["files"] = "y", {"records/rank-00000.jsonl": "1" * 64}
    saved(run.with_name("y") / "result.json", other)
    prices = ("--prices", str(tmp_path / "prices.toml"))
    text = ran(0, "summary", run.parent, *prices).out
    assert "0.5 USD" in text
    assert "list price <b>, 2026-11-01, from" in text
    assert "no failures" in text
    kind = json.loads(ran(0, "summary", run.parent, *prices, "--json").out)[0]
    assert kind["cost_per_million_tokens"] == pytest.approx(0.5)
    assert (kind["price"]["per_hour"], kind["price"]["date"]) == (3.6, "2026-11-01")
    assert "USD" not in ran(0, "summary", run.parent).out


def test_scaling_efficiency_is_against_the_fewest_devices(run, tmp_path, ran, saved):
    document = json.loads((run / "result.json").read_text())
    for number, (nodes, speed, batch) in enumerate([(2, 900.0, None), (4, 500.0, None), (8, 100.0, 4096)]):
        other = json.loads(json.dumps(document))
        other["run_id"], other["files"] = f"y{number}", {}
        other["hardware"]["nodes"] = nodes
        other["metrics"]["tokens_per_second_per_device"] = speed
        if batch is not None:
            other["contract"]["global_batch"] = batch
        saved(run.with_name(f"y{number}") / "result.json", other)
    rows = [part["rows"][0] for part in json.loads(ran(0, "report", run.parent, "--train-tokens", "1T", "--json").out)]
    found = {row["nodes"]: row.get("scaling_efficiency") for row in rows}
    assert found == {1: None, 2: pytest.approx(0.9), 4: pytest.approx(0.5), 8: None}


def test_cost_in_chinese(run, tmp_path, ran):
    cost = ran(0, "report", run, "--prices", tmp_path / "prices.toml", "--lang", "zh").out.partition("设备单价")[2]
    for english in (" an hour", "for each parameter", " on 8 devices", "the devices alone", "every step"):
        assert english not in cost, english
    assert "8 台设备需" in cost


@pytest.mark.parametrize("form", ["terminal", "markdown"])
def test_a_table_of_runs_has_the_cost_of_the_training_that_was_asked_for(run, tmp_path, ran, capsys, form):
    other = run.with_name("y")
    other.mkdir()
    slower = json.loads((run / "result.json").read_text().replace("1000.0", "500.0")) | {"run_id": "y", "files": {}}
    (other / "result.json").write_text(json.dumps(slower))
    arguments = ("report", str(run.parent), "--format", form, "--train-tokens", "85.47B")
    text = ran(0, *arguments, "--prices", tmp_path / "prices.toml").out
    assert "training, device hours" in " ".join(text.split())
    for figure in ("23,742", "123.7", "85,470 USD", "170,940 USD"):
        assert figure in text
    assert call(list(arguments)) == 0  # without prices, hours and days alone
    text = capsys.readouterr().out
    assert "23,742" in text
    assert "USD" not in text


def test_a_summary_of_imported_documents_alone_says_where_their_cost_is(tmp_path, capsys, monkeypatch):
    published = (
        Path(__file__).parents[3] / "extensions/published/src/llmperf_published/data" / "baichuan2_13b_zero_h800"
    )
    (tmp_path / "prices.toml").write_text(PRICES)
    assert call(["summary", str(published), "--prices", str(tmp_path / "prices.toml")]) == 0
    assert "a summary of imported rows alone has no cost; with it: llmperf report" in capsys.readouterr().err


def on_nodes(run, *speeds):
    """Further runs of the same contract, on 1, 2, 4 nodes and so on."""
    document = json.loads((run / "result.json").read_text())
    for number, speed in enumerate(speeds):
        other = json.loads(json.dumps(document)) | {"run_id": f"y{number}", "files": {}}
        other["hardware"]["nodes"] = other["parallelism"]["nodes"] = 2**number
        other["parallelism"] |= {"devices_per_node": 8, "data_parallel": 8 * 2**number}
        other["metrics"]["tokens_per_second_per_device"] = speed
        run.with_name(f"y{number}").mkdir()
        (run.with_name(f"y{number}") / "result.json").write_text(json.dumps(other))


def test_a_summary_has_the_training_that_was_asked_for(run, tmp_path, ran):
    on_nodes(run, 1000.0)
    (run / "result.json").unlink()
    words = ["summary", str(run.parent), "--prices", str(tmp_path / "prices.toml"), "--train-tokens", "3.6B"]
    out = ran(0, *words).out
    header, line = out.splitlines()[0], next(line for line in out.splitlines() if "H100" in line)
    for title in ("cost per million tokens", "training, device hours", "training, days", "cost of a training"):
        assert title in header
    assert re.search(r"1 USD +1,?000 +5.208 +3,600 USD$", line)
    assert "tokens of a training: 3.6B: as asked for (--train-tokens)" in out
    (kind,) = json.loads(ran(0, *words, "--json").out)
    assert (kind["train_tokens"], kind["train_device_hours"]) == (3_600_000_000, pytest.approx(1000))
    assert (kind["train_seconds"], kind["train_cost"]) == (pytest.approx(450_000), pytest.approx(3600))


def test_a_summary_in_chinese_has_its_costs_explained_in_chinese(run, tmp_path, ran):
    prices = ("--prices", str(tmp_path / "prices.toml"), "--train-tokens", "3.6B")
    out = ran(0, "summary", run.parent, *prices, "--lang", "zh").out
    for english in ("an hour", "as asked for", "every step", "tokens of a training", "cost"):
        assert english not in out
    assert "3.6B：由 --train-tokens 指定" in out
    out = ran(0, "summary", run.parent, "--train-tokens", "3.6B", "--lang", "en").out
    assert "training, days" in out
    assert "cost per million tokens" not in out


@pytest.mark.parametrize("command", ["report", "summary"])
@pytest.mark.parametrize("form", ["terminal", "markdown"])
def test_tables_have_the_scaling_efficiency_without_prices_and_say_what_it_assumes(run, ran, command, form):
    on_nodes(run, 1000.0, 900.0)
    (run / "result.json").unlink()
    out = ran(0, command, run.parent, "--format", form).out
    assert "scaling efficiency" in out
    assert "90.0 %" in out
    assert "of the fastest setting on the fewest devices, of one contract" in out
    assert "strong scaling" in out


def test_runs_on_as_many_devices_have_no_scaling_efficiency(run, ran):
    for command in ("report", "summary"):
        assert "scaling" not in ran(0, command, run.parent).out
