"""The document of the API in its forms, and the page."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from ostler import __version__
from ostler.server.agentapi.openapi import document, downgraded
from tests.server.agentapi.served_agent import FakeAgent, ServedAgent, serving
from tests.support.paths import SHARED

RECORDED = SHARED / "agentapi" / "openapi.json"


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[ServedAgent]:
    async with serving(FakeAgent(), tmp_path) as served:
        yield served


def normalised(value: Any) -> Any:
    """The order of what is listed means nothing, and the original sorts it."""
    if isinstance(value, list):
        return sorted(map(normalised, value), key=lambda one: json.dumps(one, sort_keys=True))
    return {name: normalised(one) for name, one in value.items()} if isinstance(value, dict) else value


@pytest.mark.skipif(
    not RECORDED.exists(),
    reason=f"agentapi's own document is not at {RECORDED}",
)
def test_the_document_is_that_of_the_original_but_for_its_version() -> None:
    recorded = json.loads(RECORDED.read_text())
    recorded["info"]["version"] = __version__
    assert normalised(downgraded(document())) == normalised(recorded)


async def test_it_is_served_in_both_versions_and_forms(served: ServedAgent) -> None:
    for name, version, expected in (
        ("openapi", "3.1.0", document()),
        ("openapi-3.0", "3.0.3", downgraded(document())),
    ):
        answer = await served.http.get(f"/{name}.json")
        assert answer.headers["content-type"] == "application/vnd.oai.openapi+json"
        assert answer.json() == expected
        assert answer.json()["openapi"] == version
        answer = await served.http.get(f"/{name}.yaml")
        assert answer.headers["content-type"] == "application/vnd.oai.openapi+yaml"
        assert yaml.safe_load(answer.text) == expected


async def test_operations_have_the_names_that_clients_were_made_from(served: ServedAgent) -> None:
    paths = (await served.http.get("/openapi.json")).json()["paths"]
    assert {
        f"{method.upper()} {path}": operation["operationId"]
        for path, operations in paths.items()
        for method, operation in operations.items()
    } == {
        "GET /status": "get-status",
        "GET /messages": "get-messages",
        "POST /message": "post-message",
        "POST /upload": "post-upload",
        "GET /events": "subscribeEvents",
    }


def test_null_and_examples_are_written_as_each_openapi_version_does() -> None:
    newer = document()["components"]["schemas"]["ErrorModel"]["properties"]
    older = downgraded(document())["components"]["schemas"]["ErrorModel"]["properties"]
    assert newer["errors"]["type"] == ["array", "null"] and newer["status"]["examples"] == [400]
    assert older["errors"]["type"] == "array" and older["errors"]["nullable"] is True
    assert older["status"]["example"] == 400 and "examples" not in older["status"]


async def test_a_schema_can_be_had_by_itself(served: ServedAgent) -> None:
    answer = await served.http.get("/schemas/Message.json")
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["properties"]["role"]["$ref"] == "/schemas/ConversationRole.json"
    assert answer.json() == (await served.http.get("/schemas/Message")).json()
    unknown = await served.http.get("/schemas/Nothing.json")
    assert (unknown.status_code, unknown.content) == (200, b"null")


async def test_what_is_answered_fits_the_schema_that_it_names(served: ServedAgent) -> None:
    answers = [
        await served.http.get("/status"),
        await served.http.get("/messages"),
        await served.say("hello"),
        await served.say(""),
        await served.http.post("/message", json={"content": 1, "x": 2}),
        await served.http.post("/upload", files={"file": ("a", b"", "text/plain")}),
    ]
    schemas = json.dumps(document()["components"]["schemas"])
    definitions = json.loads(schemas.replace("#/components/schemas/", "#/$defs/"))
    for answer in answers:
        (name,) = re.findall(r"</schemas/(\w+)\.json>", answer.headers["link"])
        assert answer.json()["$schema"].endswith(f"/schemas/{name}.json")
        schema = {"$ref": f"#/$defs/{name}", "$defs": definitions}
        jsonschema_rs.validator_for(schema).validate(answer.json())


async def test_the_document_for_people_asks_nobody_else(served: ServedAgent) -> None:
    answer = await served.http.get("/docs")
    assert answer.headers["content-type"] == "text/html"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "GET /status" in answer.text and "MessageRequestBody" in answer.text
    assert "<script" not in answer.text
    assert re.findall(r'(?:src|href)="([^"]+)"', answer.text) == [
        "openapi.json",
        "openapi.yaml",
        "openapi-3.0.json",
        "openapi-3.0.yaml",
    ]


@pytest.mark.parametrize(
    ("base", "target"), [("/chat", "/chat/embed"), ("/custom/", "/custom/embed"), ("/", "/embed")]
)
async def test_the_root_leads_to_the_page(tmp_path: Path, base: str, target: str) -> None:
    async with serving(FakeAgent(), tmp_path, chat_base_path=base) as served:
        for method in ("GET", "POST", "HEAD"):
            answer = await served.http.request(method, "/", follow_redirects=False)
            assert (answer.status_code, answer.headers["location"]) == (307, target)
            assert bool(answer.content) == (method == "GET")


@pytest.mark.parametrize(
    ("path", "way"),
    [
        ("/chat", "./chat/assets/"),
        ("/chat/", "./assets/"),
        ("/chat/embed", "./assets/"),
        ("/chat/embed/", "../assets/"),
    ],
)
async def test_the_page_is_there_and_finds_its_files(served: ServedAgent, path: str, way: str) -> None:
    answer = await served.http.get(path)
    assert answer.status_code == 200
    assert 'name="ostler-wire" content="agentapi"' in answer.text
    (script,) = re.findall(r'<script[^>]* src="([^"]+)"', answer.text)
    assert script.startswith(way)
    found = await served.http.get(answer.url.join(script))
    assert found.status_code == 200 and "javascript" in found.headers["content-type"]


async def test_behind_a_proxy_the_page_finds_its_files_below_its_own_path(tmp_path: Path) -> None:
    async with serving(FakeAgent(), tmp_path, chat_base_path="/@user/apps/ccw") as served:
        assert '"./ccw/assets/' in (await served.http.get("/chat")).text


@pytest.mark.parametrize("path", ["/chat/nothing", "/chat/embed/x", "/chat/assets/nothing.js"])
async def test_a_page_that_is_not_there_is_not_found(served: ServedAgent, path: str) -> None:
    assert (await served.http.get(path)).status_code == 404


async def test_allowed_origins_can_show_the_page_in_a_frame(tmp_path: Path) -> None:
    for options, framed in (({}, "http://localhost:3284"), ({"allowed_hosts": ["*"]}, "*")):
        async with serving(FakeAgent(), tmp_path, **options) as served:
            policy = (await served.http.get("/chat/embed")).headers["content-security-policy"]
            assert framed in policy.partition("frame-ancestors")[2].split()
