"""The package alone: what another program gets from it."""

import jsonschema
import llmperf_schemas
import pytest


@pytest.mark.parametrize("name", llmperf_schemas.names())
def test_schema_is_a_valid_2020_12_schema_and_accepts_its_examples(name):
    schema = llmperf_schemas.load(name)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["examples"]
    for example in schema["examples"]:
        jsonschema.Draft202012Validator(schema).validate(example)


def test_ids_are_distinct_and_carry_the_version():
    ids = [llmperf_schemas.load(name)["$id"] for name in llmperf_schemas.names()]
    assert len(set(ids)) == len(ids)
    assert all(one.endswith(f":{llmperf_schemas.SCHEMA_VERSION}") for one in ids)


def test_a_document_of_another_version_is_refused():
    schema = llmperf_schemas.load("result")
    document = {**llmperf_schemas.example("result"), "schema": "llmperf/result/999"}
    assert not jsonschema.Draft202012Validator(schema).is_valid(document)


@pytest.mark.parametrize("name", llmperf_schemas.names())
def test_no_key_is_admitted_that_is_not_described(name):
    def walk(schema):
        if schema.get("type") == "object":
            if "properties" in schema:
                # extensions add sections of their own to results
                assert schema["additionalProperties"] is False or schema["description"].startswith(
                    "Figures of sections"
                )
                assert schema["description"]
            for key, inner in schema.get("properties", {}).items():
                assert "$ref" in inner or inner["description"].strip(), key
                walk(inner)
        for inner in schema.get("$defs", {}).values():
            walk(inner)

    walk(llmperf_schemas.load(name))


def test_unknown_name_is_a_key_error():
    with pytest.raises(KeyError):
        llmperf_schemas.load("../__init__")
