"""Models of other programs' files: read by extensions, checked by the core, refused in one line."""

import json

import pytest
from llmperf.cases.model_import import import_config
from llmperf.cli.main import call
from llmperf.errors import UserError
from llmperf.plugins import loading

READER = """
from llmperf import hookimpl
from llmperf.types import ImportedModel

FACTS = {"family": "llama", "layers": 2, "hidden_size": 64, "intermediate_size": 128, "attention_heads": 4,
         "kv_heads": 4, "vocab_size": 128, "max_positions": 64, "norm_eps": 1e-5, "position_encoding": "rope",
         "rope_theta": 10000.0}

@hookimpl
def llmperf_import_model(path):
    if path.suffix == ".acme":
        facts = {**FACTS, **json.loads(path.read_text())}
        yield ImportedModel(facts=facts, source=path.name, not_expressed=("colour = red",))

import json
"""


@pytest.fixture
def acme(install, tmp_path):
    """A file that an installed extension reads."""
    install("llmperf-acme-models", "acme-models", READER, role="extension")
    path = tmp_path / "small.acme"
    path.write_text("{}")
    return path


def test_an_extension_reads_files_of_another_program(acme, capsys):
    assert call(["models", "import", str(acme), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["model"]["layers"], document["model"]["source"]) == (2, "small.acme")
    assert document["model"]["nominal_parameters"] == 99_000
    assert document["not_expressed"] == ["colour = red"]


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"kv_heads": 3}, "small.acme: kv_heads: expected a divisor of attention_heads 4, found 3"),
        ({"novel": 1}, "small.acme: unknown key 'novel'"),
        ({"layers": "two"}, "small.acme: Expected `int`, got `str`"),
        ([], "extension 'acme-models' (llmperf-acme-models): llmperf_import_model raised TypeError"),
    ],
)
def test_facts_that_do_not_fit_are_refused_in_one_line(acme, facts, message):
    acme.write_text(json.dumps(facts))
    with pytest.raises(UserError) as refused:
        import_config(acme, "mine")
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_that_two_extensions_read_names_both(acme, install):
    install("llmperf-other-models", "other-models", READER, role="extension")
    with pytest.raises(UserError, match=r"read by .*llmperf-acme-models.* and .*llmperf-other-models"):
        import_config(acme, "mine")


def test_a_package_that_is_broken_is_named_with_the_reason(monkeypatch, install, tmp_path):
    install("llmperf-half", "half", "raise RuntimeError('half installed')", role="extension")
    ours = [found for found in loading.discover() if found.name == "half"]
    monkeypatch.setattr(loading, "discover", lambda: ours)
    with pytest.raises(UserError, match=r"install it with: .*; extension 'half' .* half installed"):
        import_config(tmp_path / "config.json", "mine")


def test_without_an_extension_that_reads_models_the_package_is_named_and_models_are_shown(monkeypatch, capsys):
    monkeypatch.setattr(loading, "discover", list)
    assert call(["models", "import", "config.json", "-o", "mine.toml"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "config.json: llmperf-huggingface reads configurations of Hugging Face; install it with: " in err
    assert err.count("\n") == 1
    assert call(["models", "llama_tiny"]) == 0
