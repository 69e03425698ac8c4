"""`llmperf models import`: configurations of Hugging Face, and files that other extensions read."""

import json

import pytest
from llmperf.cases.library import library, read_named
from llmperf.errors import UserError
from llmperf.types import Model
from llmperf_huggingface.export import huggingface_config
from llmperf_huggingface.importing import import_config

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


def test_a_configuration_becomes_a_model_file_that_can_be_shown(ran, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = huggingface_config(library().model("mixtral_8x7b"))
    (tmp_path / "config.json").write_text(json.dumps({**config, "surprise": 1}))
    out, err = ran(0, "models", "import", "config.json", "-o", "mine.toml")
    assert out == "wrote mine.toml\n"
    assert "46,702,792,704 parameters, of which a token passes 12,879,925,248" in err
    assert "not expressed: surprise = 1" in err
    assert read_named(tmp_path / "mine.toml", Model).mixture.experts == 8
    ran(0, "models", "mine.toml")
    ran(0, "validate", "mine.toml")


def test_an_import_replaces_a_file_only_by_force_and_never_a_link(ran, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(huggingface_config(library().model("llama3_tiny"))))
    (tmp_path / "mine.toml").write_text("precious")
    (tmp_path / "link.toml").symlink_to("mine.toml")
    words = ("models", "import", "config.json", "-o")
    assert "mine.toml: exists already; --force replaces it" in ran(2, *words, "mine.toml").err
    ran(2, *words, "link.toml", "--force")
    assert (tmp_path / "mine.toml").read_text() == "precious"
    ran(0, *words, "mine.toml", "--force")
    assert read_named(tmp_path / "mine.toml", Model).layers == library().model("llama3_tiny").layers


def test_an_import_writes_no_file_that_is_refused_when_it_is_read(ran, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = huggingface_config(library().model("llama3_tiny"))
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "huge.json").write_text(json.dumps({**config, "num_hidden_layers": 10**12}))
    words = ("models", "import")
    assert "'llama2_7b' is the name of a shipped model" in ran(2, *words, "config.json", "-o", "llama2_7b.toml").err
    assert "huge.json: nominal_parameters: expected at most" in ran(2, *words, "huge.json", "-o", "mine.toml").err
    assert not list(tmp_path.glob("*.toml"))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["import"], "expected a Hugging Face configuration, such as config.json, found none"),
        (["import", "config.json", "-o", "mine.json"], "expected a name that ends in .toml"),
        (["import", "nowhere.json"], "nowhere.json: No such file"),
        (["llama2_7b", "-o", "x.toml"], "--out: only with"),
        (["llama2_7b", "--force"], "--force: only with"),
    ],
)
def test_wrong_words_are_refused_in_one_line(ran, words, message):
    out, err = ran(2, "models", *words)
    assert (out, err.count("\n")) == ("", 1)
    assert message in err


@pytest.fixture
def acme(install, tmp_path):
    """A file that an installed extension reads."""
    install("llmperf-acme-models", "acme-models", READER, role="extension")
    path = tmp_path / "small.acme"
    path.write_text("{}")
    return path


def test_an_extension_reads_files_of_another_program(acme, ran):
    document = json.loads(ran(0, "models", "import", acme, "--json").out)
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
def test_facts_that_do_not_fit_are_refused_in_one_line(acme, facts, message, one_line):
    acme.write_text(json.dumps(facts))
    with one_line(message):
        import_config(acme, "mine")


def test_a_file_that_two_extensions_read_names_both(acme, install):
    install("llmperf-other-models", "other-models", READER, role="extension")
    with pytest.raises(UserError, match=r"read by .*llmperf-acme-models.* and .*llmperf-other-models"):
        import_config(acme, "mine")
