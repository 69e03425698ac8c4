"""`llmperf models import` of Hugging Face configurations, as a user meets it."""

from __future__ import annotations

import json

import pytest
from llmperf.cases.library import library, read_named
from llmperf.cli.main import call
from llmperf.types import Model
from llmperf_huggingface.export import huggingface_config


def run(capsys, *words):
    code = call(list(words))
    out, err = capsys.readouterr()
    return code, out, err


def test_a_configuration_becomes_a_model_file_that_can_be_shown(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = huggingface_config(library().model("mixtral_8x7b"))
    (tmp_path / "config.json").write_text(json.dumps({**config, "surprise": 1}))
    code, out, err = run(capsys, "models", "import", "config.json", "-o", "mine.toml")
    assert (code, out) == (0, "wrote mine.toml\n")
    assert "46,702,792,704 parameters, of which a token passes 12,879,925,248" in err
    assert "not expressed: surprise = 1" in err
    assert read_named(tmp_path / "mine.toml", Model).mixture.experts == 8
    assert run(capsys, "models", "mine.toml")[0] == 0
    assert run(capsys, "validate", "mine.toml")[0] == 0


def test_an_import_replaces_a_file_only_by_force_and_never_a_link(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(huggingface_config(library().model("llama3_tiny"))))
    (tmp_path / "mine.toml").write_text("precious")
    (tmp_path / "link.toml").symlink_to("mine.toml")
    words = ("models", "import", "config.json", "-o")
    code, _, err = run(capsys, *words, "mine.toml")
    assert code == 2
    assert "mine.toml: exists already; --force replaces it" in err
    assert run(capsys, *words, "link.toml", "--force")[0] == 2
    assert (tmp_path / "mine.toml").read_text() == "precious"
    assert run(capsys, *words, "mine.toml", "--force")[0] == 0
    assert read_named(tmp_path / "mine.toml", Model).layers == library().model("llama3_tiny").layers


def test_an_import_writes_no_file_that_is_refused_when_it_is_read(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = huggingface_config(library().model("llama3_tiny"))
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "huge.json").write_text(json.dumps({**config, "num_hidden_layers": 10**12}))
    code, _, err = run(capsys, "models", "import", "config.json", "-o", "llama2_7b.toml")
    assert code == 2
    assert "'llama2_7b' is the name of a shipped model" in err
    code, _, err = run(capsys, "models", "import", "huge.json", "-o", "mine.toml")
    assert code == 2
    assert "huge.json: nominal_parameters: expected at most" in err
    assert not list(tmp_path.glob("*.toml"))


def test_a_file_that_is_not_there_is_refused_in_one_line(capsys):
    code, out, err = run(capsys, "models", "import", "nowhere.json")
    assert (code, out) == (2, "")
    assert "nowhere.json: No such file" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["import"], "expected a Hugging Face configuration, such as config.json, found none"),
        (["import", "config.json", "-o", "mine.json"], "expected a name that ends in .toml"),
        (["llama2_7b", "-o", "x.toml"], "--output: only with"),
        (["llama2_7b", "--force"], "--force: only with"),
    ],
)
def test_wrong_words_are_refused_in_one_line(capsys, words, message):
    code, out, err = run(capsys, "models", *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
