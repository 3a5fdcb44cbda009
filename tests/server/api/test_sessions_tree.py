"""The tree over HTTP: forks, labels, going back; and sessions as files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.server.served import Served, serving


async def talked(served: Served) -> tuple[str, list[dict[str, Any]]]:
    session = await served.new_session("one")
    await served.rest(session)
    tree = await served.get(f"sessions/{session}/tree")
    return session, tree["entries"]


async def test_a_tree_shows_entries_with_labels_and_where_the_session_stands(tmp_path: Path) -> None:
    async with serving(tmp_path, "two") as served:
        session, entries = await talked(served)
        assert [(one["type"], one["text"]) for one in entries] == [
            ("user_message", "one"),
            ("assistant_message", "two"),
        ]
        question, answer = (one["seq"] for one in entries)
        labelled = await served.post(
            f"sessions/{session}/label", {"entry": question, "label": "start  here"}, 200
        )
        assert labelled["fact"]["type"] == "labelled"
        moved = await served.post(f"sessions/{session}/navigate", {"entry": question}, 200)
        assert moved["fact"] == {**moved["fact"], "type": "leaf_moved", "to": question}
        tree = await served.get(f"sessions/{session}/tree")
        assert tree["leaf"] == question
        assert tree["entries"][0]["label"] == "start here"
        assert tree["entries"][1]["parent"] == question
        for path, body in (
            ("navigate", {"entry": answer + 1000}),
            ("label", {"entry": answer + 1000, "label": "x"}),
            ("fork", {"entry": answer + 1000}),
        ):
            problem = await served.post(f"sessions/{session}/{path}", body, 409)
            assert str(answer + 1000) in problem["detail"]
        await served.post(f"sessions/{session}/navigate", {}, 400)
        await served.post(f"sessions/{session}/navigate", {"entry": -1}, 400)
        await served.post("sessions/nothing/navigate", {"entry": 0}, 404)


async def test_a_fork_is_a_session_of_its_own(tmp_path: Path) -> None:
    async with serving(tmp_path, "two") as served:
        session, entries = await talked(served)
        made = await served.post(
            f"sessions/{session}/fork", {"entry": entries[0]["seq"], "title": "another way"}, 201
        )
        assert (made["forked_from"], made["title"]) == (session, "another way")
        copied = (await served.get(f"sessions/{made['id']}/tree"))["entries"]
        assert [one["text"] for one in copied] == ["one"]
        whole = await served.post(f"sessions/{session}/fork", {}, 201)
        assert len((await served.get(f"sessions/{whole['id']}/tree"))["entries"]) == 2
        empty = await served.new_session()
        await served.post(f"sessions/{empty}/fork", {}, 409)


async def test_an_exported_session_can_be_imported_under_a_new_id(tmp_path: Path) -> None:
    async with serving(tmp_path, "two") as served:
        session, entries = await talked(served)
        exported = await served.http.get(f"sessions/{session}/export")
        assert exported.headers["content-type"] == "application/x-ndjson"
        assert 'filename="' in exported.headers["content-disposition"]
        lines = {"Content-Type": "application/x-ndjson"}
        made = await served.http.post("sessions/import", content=exported.content, headers=lines)
        assert made.status_code == 201, made.text
        copy = made.json()
        assert copy["id"] != session
        assert copy["cwd"] == str(served.work)
        assert (await served.get(f"sessions/{copy['id']}/tree"))["entries"] == entries
        cut = exported.content[: len(exported.content) // 2]
        assert (await served.http.post("sessions/import", content=cut, headers=lines)).status_code == 400
        wrong = await served.http.post("sessions/import", content=cut, headers={"Content-Type": "text/plain"})
        assert (wrong.status_code, wrong.json()["kind"]) == (415, "wrong_media_type")


async def test_a_session_can_be_exported_to_read(tmp_path: Path) -> None:
    async with serving(tmp_path, "two <b>") as served:
        session, _ = await talked(served)
        page = await served.http.get(f"sessions/{session}/export", params={"format": "html"})
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert "sandbox" in page.headers["content-security-policy"]
        assert "two &lt;b&gt;" in page.text
        text = await served.http.get(f"sessions/{session}/export", params={"format": "md"})
        assert text.headers["content-type"] == "text/markdown; charset=utf-8"
        assert text.text.startswith("# one")
        await served.get(f"sessions/{session}/export", status=400, format="pdf")
        await served.get("sessions/nothing/export", status=404)
