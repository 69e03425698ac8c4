"""Models of other programs' files: read by extensions, checked like model files, refused in one line."""

import json

import pytest
from llmperf.cli.main import call
from llmperf.errors import UserError
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
