"""Who may ask: on this machine everybody, from others whoever has a token, unless it is said otherwise."""

from __future__ import annotations

import pytest

from ostler.server.tokens import TokenStore
from tests.agents.serving.served_agent import GREETING, ServedAgent, scripted, serving_agent
from tests.support.command import Ostler

EVERYWHERE = ("--host", "0.0.0.0")


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def press(served: ServedAgent, **headers: str) -> int:
    asked = {name.replace("_", "-"): value for name, value in headers.items()}
    return served.http.post("/message", json={"content": "x", "type": "raw"}, headers=asked).status_code


def test_without_a_token_it_is_not_offered_to_other_machines(ostler: Ostler) -> None:
    ran = ostler("serve", "--port", "0", *EVERYWHERE, "--", "touch", "started")
    assert ran.code == 2
    assert ran.err.count("\n") == 1
    assert "ostler token new" in ran.err
    assert "--allow-unauthenticated" in ran.err
    assert not (ostler.work / "started").exists()


def test_other_machines_need_a_token(ostler: Ostler) -> None:
    book = TokenStore(ostler.home / "tokens.json")
    everything, looking = book.new("all", "all"), book.new("looking", "observe")
    with serving_agent(ostler, *EVERYWHERE, agent=scripted(ostler, [GREETING])) as served:
        assert "plain HTTP" in served.said
        assert served.http.get("/", follow_redirects=False).headers["location"] == "/chat/embed"
        assert served.http.get("/chat/embed").status_code == 200  # the page asks for a token itself
        for path in ("/status", "/chats", "/docs", "/openapi.json", "/internal/terminal", "/events"):
            refused = served.http.get(path, follow_redirects=False)
            assert refused.status_code == 401
            assert refused.headers["content-type"] == "application/problem+json"
        assert press(served) == 401
        assert served.http.get("/status", headers=bearer("wrong")).status_code == 401
        assert served.http.get("/status", headers=bearer(looking)).status_code == 200
        assert press(served, **bearer(looking)) == 403
        assert press(served, **bearer(everything)) == 200
        preflight = {"Origin": "http://localhost:3000", "Access-Control-Request-Method": "POST"}
        assert served.http.options("/message", headers=preflight).status_code == 200
        assert served.http.get("/api/v1/sessions").status_code == 401
        assert served.http.get("/api/v1/sessions", headers=bearer(looking)).status_code == 200
        with served.http.stream("GET", "/events", headers=bearer(looking)) as stream:
            lines = stream.iter_lines()
            assert next(lines).startswith("event")
            book.revoke("looking")
            assert list(lines)  # until its end, which comes


def test_a_link_logs_a_browser_in_once_and_a_cookie_alone_is_nothing(ostler: Ostler) -> None:
    TokenStore(ostler.home / "tokens.json").new("all", "all")
    with serving_agent(ostler, *EVERYWHERE, agent=scripted(ostler, [GREETING])) as served:
        assert "token=" not in served.said
        code = ostler("token", "link", served.url).out.strip().partition("#token=")[2]
        own = {"Origin": served.url.rstrip("/")}
        login = served.http.post("/api/v1/login", json={"token": code}, headers=own)
        page = bearer(login.json()["token"])
        assert served.http.get("/status").status_code == 401
        assert served.http.get("/status", headers=page).status_code == 200
        changes = {**page, **own, "X-Ostler": "1"}
        assert press(served, **changes) == 200
        assert press(served, **page) == 403
        assert press(served, **{**changes, "Origin": "http://evil.example"}) == 403
        assert press(served, **{**page, "X-Ostler": "1", "Sec-Fetch-Site": "same-site"}) == 403
        again = served.http.post("/api/v1/login", json={"token": code}, headers=own)
        assert again.status_code == 401
        assert served.http.post("/api/v1/logout", headers=changes).status_code == 204
        assert served.http.get("/status", headers=page).status_code == 401
        assert served.http.get(f"/?code={code}", follow_redirects=False).status_code == 307


def test_unauthenticated_access_can_be_allowed(ostler: Ostler) -> None:
    with serving_agent(
        ostler, *EVERYWHERE, "--allow-unauthenticated", agent=scripted(ostler, [GREETING])
    ) as served:
        assert "no token is required" in served.said
        assert served.http.get("/status").status_code == 200
        assert press(served) == 200
        assert served.http.get("/api/v1/sessions").status_code == 401


@pytest.mark.parametrize("hosts", [("--allowed-hosts", "mine.example"), ()])
def test_both_apis_are_asked_for_by_the_same_names(ostler: Ostler, hosts: tuple[str, ...]) -> None:
    with serving_agent(ostler, *hosts, agent=scripted(ostler, [GREETING])) as served:
        asked = {"Host": "mine.example"}
        assert served.http.get("/status", headers=asked).status_code == (200 if hosts else 400)
        assert served.http.get("/api/v1/sessions", headers=asked).status_code == (401 if hosts else 403)
        if not hosts:
            assert (
                "Allowed hosts: localhost, 127.0.0.1, ::1" in served.http.get("/status", headers=asked).text
            )
