"""The OpenAPI document: valid, whole, and true of the running server."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from ostler.schema.requests import AnyRequest
from ostler.server.app import OPERATIONS, PREFIX
from ostler.server.openapi import FACTS, openapi
from tests.server.served import serving


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    described: dict[str, Any] = json.loads(json.dumps(openapi(OPERATIONS, PREFIX)))
    return described


def test_every_reference_leads_somewhere_and_every_schema_is_one(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    references = set()

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            assert value.get("items") is not False, "programs that make clients cannot read it"
            if isinstance(found := value.get("$ref"), str):
                references.add(found)
            for inner in value.values():
                walk(inner)
        elif isinstance(value, list):
            for inner in value:
                walk(inner)

    walk(document)
    assert references == {f"#/components/schemas/{name}" for name in schemas} & references
    for schema in schemas.values():
        jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})


def test_everything_is_described(document: dict[str, Any]) -> None:
    names = []
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            names.append(operation["operationId"])
            assert operation["summary"], path
            assert "default" in operation["responses"]
            declared = {one["name"] for one in operation.get("parameters", ())}
            assert all(one["description"] for one in operation.get("parameters", ()) if one["in"] == "path")
            if method == "post" and operation["security"]:
                assert "Idempotency-Key" in declared
            assert all(one.keys() == {"token"} for one in operation["security"])
    assert len(names) == len(set(names))


def test_descriptions_are_not_indented_as_the_code_is(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"].values()
    texts = [schema["description"] for schema in schemas if "description" in schema]
    assert any("\n\n" in text for text in texts)
    assert not [text for text in texts if "\n " in text]


def test_the_union_of_requests_is_closed_and_needs_no_id(document: dict[str, Any]) -> None:
    operation = document["paths"]["/api/v1/sessions/{session}/requests"]["post"]
    body = operation["requestBody"]["content"]["application/json"]["schema"]
    tags = {str(kind.__struct_config__.tag) for kind in AnyRequest.__args__}
    assert set(body["discriminator"]["mapping"]) == tags
    for reference in body["discriminator"]["mapping"].values():
        schema = document["components"]["schemas"][reference.rsplit("/", 1)[1]]
        assert schema["description"], reference
        assert "id" in schema["properties"] and "id" not in schema["required"]
        assert schema["additionalProperties"] is False


async def test_facts_are_as_they_are_described(document: dict[str, Any], tmp_path: Path) -> None:
    validator = jsonschema_rs.Draft202012Validator(
        {"$ref": "#/components/schemas/Fact", "components": document["components"]}
    )
    async with serving(tmp_path, "done") as served:
        session = await served.new_session("go")
        await served.rest(session)
        facts = (await served.get(f"sessions/{session}/events"))["facts"]
        assert len(facts) > 5
        for fact in facts:
            validator.validate(fact)
        assert not validator.is_valid({**facts[0], "type": "nothing"})
        assert not validator.is_valid({name: value for name, value in facts[0].items() if name != "seq"})
        served_document = await served.get("openapi.json")
        assert served_document == document
    mapping = document["components"]["schemas"]["Fact"]["allOf"][1]["discriminator"]["mapping"]
    assert set(mapping) == set(FACTS)


def test_the_command_prints_it(document: dict[str, Any]) -> None:
    command = [sys.executable, "-m", "ostler", "serve", "--openapi"]
    printed = subprocess.run(command, capture_output=True, check=True, timeout=60).stdout
    assert json.loads(printed) == document
