"""`ostler permissions`, and remembered answers across processes."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from ostler.testkit.vendors import FakeVendor, call, turn
from tests.support.command import PATIENCE, Ostler, finish, use, wait_until
from tests.support.fixtures import Serve
from tests.support.open_runs import TOUCH, waiting_run

TEE = "echo run | tee ran.txt"
RULE = "bash(=tee ran.txt)"


def run_it() -> object:
    return turn(call("bash", {"command": TEE}))


def listed_rules(ostler: Ostler, *options: str) -> list[tuple[str, str, str]]:
    rows = [json.loads(line) for line in ostler("permissions", "--json", *options).out.splitlines()]
    assert [row["number"] for row in rows] == list(range(1, len(rows) + 1))
    return [(row["effect"], row["rule"], row["scope"]) for row in rows]


ANSWER = """
import asyncio, sys
from ostler import Agent
from ostler.tools import builtin_tools

async def answer(url, store, session, said):
    tools = builtin_tools(["bash"])
    model = {"model": "openai/x", "base_url": url, "api_key": "k"}
    async with Agent(**model, tools=tools, store=store, session=session, permissions="edit") as agent:
        print((await agent.answer(said)).status)

asyncio.run(answer(*sys.argv[1:]))
"""


def answer_in_another_process(ostler: Ostler, vendor: FakeVendor, answer: str) -> str:
    """A run that stops at its question, and is answered by another process; its session."""
    ran = ostler("-p", "--json", *use(vendor), "--permissions", "edit", "--on-question", "wait", "run it")
    assert ran.code == 6
    question = ran.all("question_asked")[0]["question"]
    assert question["choices"] == ["yes", "session", "project", "user", "no"]
    assert f"remembers {RULE}; " in question["text"]
    assert not (ostler.work / "ran.txt").exists()
    session = str(ran.lines[0]["session"])
    later = subprocess.run(
        [sys.executable, "-c", ANSWER, vendor.chat_url, str(ostler.store), session, answer],
        cwd=ostler.work,
        env=ostler.environment({}),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (later.stdout, later.stderr) == ("completed\n", "")
    assert (ostler.work / "ran.txt").read_text() == "run\n"
    return session


def test_a_rule_of_a_session_survives_a_restart(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(
        run_it(), turn("ran"), run_it(), turn("again"), run_it(), turn("refused"), run_it(), turn("-")
    )
    session = answer_in_another_process(ostler, vendor, "session")
    assert not (ostler.home / "permissions.json").exists()
    same = ostler("-p", *use(vendor), "--permissions", "edit", "--session", session, "again")
    assert (same.code, same.out) == (0, "again\n")
    other = ostler("-p", *use(vendor), "--permissions", "edit", "run it")
    assert (other.code, "permissions are edit" in other.err) == (4, True)

    assert listed_rules(ostler) == listed_rules(ostler, "--session", session) == [("allow", RULE, "session")]
    assert ostler("permissions", "revoke", RULE).out == f"revoked allow {RULE} (session)\n"
    assert listed_rules(ostler) == []
    revoked = ostler("-p", *use(vendor), "--permissions", "edit", "--session", session, "again")
    assert revoked.code == 4


def test_a_rule_of_a_project_applies_in_its_folder(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(run_it(), turn("ran"), run_it(), turn("again"), run_it(), turn("refused"))
    answer_in_another_process(ostler, vendor, "project")
    assert [one.name for one in ostler.work.iterdir() if one.name not in (".git", "ran.txt")] == []
    assert ostler("-p", *use(vendor), "--permissions", "edit", "run it").code == 0
    elsewhere = Path(f"{ostler.work}-2")
    elsewhere.mkdir()
    assert ostler("-p", *use(vendor), "--permissions", "edit", "run it", cwd=elsewhere).code == 4
    assert listed_rules(ostler) == [("allow", RULE, "project")]
    assert ostler("permissions", "revoke", "1").code == 0
    assert listed_rules(ostler) == []


def test_a_rule_of_the_user_applies_everywhere(ostler: Ostler, serve: Serve) -> None:
    vendor = serve(run_it(), turn("ran"), run_it(), turn("there"))
    answer_in_another_process(ostler, vendor, "user")
    elsewhere = Path(f"{ostler.work}-2")
    elsewhere.mkdir()
    assert ostler("-p", *use(vendor), "--permissions", "edit", "run it", cwd=elsewhere).out == "there\n"
    assert listed_rules(ostler) == [("allow", RULE, "user")]


def test_a_denied_call_names_the_rule_to_person_and_model(ostler: Ostler, serve: Serve) -> None:
    ostler.configure("deny = ['bash(tee)']")
    vendor = serve(run_it(), turn("Without it."))
    ran = ostler("-p", *use(vendor), "--yes", "--on-question", "wait", "run it")
    assert ran.code == 4
    assert "ostler: refused: bash: the rule deny bash(tee) forbids this: tee ran.txt" in ran.err
    assert "the rule deny bash(tee) forbids this" in vendor.requests[1].json["messages"][-1]["content"]
    assert not (ostler.work / "ran.txt").exists()


def test_a_project_may_restrict_by_itself_but_allow_only_with_trust(ostler: Ostler, serve: Serve) -> None:
    (ostler.work / "ostler.toml").write_text("allow = ['bash(tee)']\nask = ['bash(cp)']\ndeny = ['bash(rm)']")
    ostler.configure("deny = ['bash(mv)']")
    vendor = serve(run_it(), turn("refused"), run_it(), turn("ran"))
    ran = ostler("-p", *use(vendor), "--permissions", "edit", "run it")
    assert ran.code == 4
    assert "sets allow, which is ignored until you review it" in ran.err
    rows = ostler("permissions").out
    assert "(ignored until `ostler trust`)" in rows
    assert [row[:2] for row in listed_rules(ostler)] == [
        ("deny", "bash(mv)"),
        ("allow", "bash(tee)"),
        ("ask", "bash(cp)"),
        ("deny", "bash(rm)"),
    ]
    for command, verdict in (("mv a b", "refuse"), ("rm a", "refuse"), ("cp a b", "ask"), ("tee a", "ask")):
        verdict_of = ostler("permissions", "test", f"bash: {command}", "--permissions", "edit")
        assert verdict_of.out.startswith(f"{verdict}: "), verdict_of.out
    assert "allow" in ostler("trust").out
    assert ostler("-p", *use(vendor), "--permissions", "edit", "run it").code == 0
    assert "ignored" not in ostler("permissions").out


def test_an_offered_rule_is_listed_tested_and_revoked(ostler: Ostler) -> None:
    for rule in ("bash+(make test)", "bash~(ls)", "bash=(echo $x (y))"):
        assert ostler("permissions", "allow", rule).code == 0
        assert listed_rules(ostler) == [("allow", rule, "project")]
        shown = ostler("permissions", "list").out
        assert rule in shown
        if rule.startswith("bash+"):
            tested = ostler("permissions", "test", "bash: make test all", "--permissions", "ask")
            assert tested.out == f"allow: rule {rule} remembered for this project\n"
            assert (
                ostler("permissions", "test", "bash: make test X=1", "--permissions", "ask").out[:4] == "ask:"
            )
        assert ostler("permissions", "revoke", rule).out == f"revoked allow {rule} (project)\n"
    refused = ostler("permissions", "deny", "bash+(make)")
    assert (refused.code, "can only allow; write bash(make) to deny" in refused.err) == (2, True)


def test_rules_are_added_and_revoked(ostler: Ostler) -> None:
    assert ostler("permissions").err == "ostler: there are no rules here; only the profile applies\n"
    assert ostler("permissions", "allow", "bash(npm run *)").out == (
        f"allow bash(npm run *), in {ostler.work}\n"
    )
    assert ostler("permissions", "deny", "read(~/.ssh/**)", "--user").out == (
        "deny read(~/.ssh/**), everywhere\n"
    )
    assert ostler("permissions", "deny", "read(~/.ssh/**)", "--user").out.endswith("(already stored)\n")
    assert ostler("permissions", "ask", "bash(npm run *)", "--user").code == 0
    assert listed_rules(ostler) == [
        ("deny", "read(~/.ssh/**)", "user"),
        ("ask", "bash(npm run *)", "user"),
        ("allow", "bash(npm run *)", "project"),
    ]
    several = ostler("permissions", "revoke", "bash(npm run *)")
    assert (several.code, several.err) == (
        2,
        "ostler: there are several rules bash(npm run *): give one of the numbers 2, 3\n",
    )
    assert ostler("permissions", "revoke", "2").code == 0
    assert ostler("permissions", "revoke", "bash(npm run *)").code == 0
    assert [row[1] for row in listed_rules(ostler)] == ["read(~/.ssh/**)"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("allow", "bash(git"), "'bash(git' is not a rule"),
        (("revoke", "bash(git)"), "there is no rule 'bash(git)' here"),
        (("revoke", "7"), "there is no rule '7' here"),
        (("test", "git push"), "write the call as TOOL: WHAT"),
        (("list", "--session", "ses_x"), "there is no session ses_x"),
    ],
)
def test_an_impossible_command_is_one_line(
    ostler: Ostler, arguments: tuple[str, ...], complaint: str
) -> None:
    ran = ostler("permissions", *arguments)
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert complaint in ran.err


def test_a_rule_of_a_file_is_removed_in_the_file(ostler: Ostler) -> None:
    ostler.configure("allow = ['bash(make)']")
    ran = ostler("permissions", "revoke", "1")
    assert ran.code == 2
    assert f"bash(make) is set in {ostler.home / 'config.toml'}: remove it there" in ran.err


def test_a_file_with_an_invalid_rule_is_refused(ostler: Ostler) -> None:
    ostler.configure("deny = ['bash(git']")
    ran = ostler("-p", "--model", "demo", "hello")
    assert ran.code == 2
    assert f"{ostler.home / 'config.toml'}: deny: 'bash(git' is not a rule" in ran.err


def test_a_call_can_be_tested(ostler: Ostler) -> None:
    def verdict_of(call: str, profile: str) -> list[str]:
        return ostler("permissions", "test", call, "--permissions", profile).out.splitlines()

    assert verdict_of("bash: git push", "full") == ["allow: profile full"]
    assert verdict_of("bash: ls -l | sort", "edit") == ["allow: profile edit, it only reads"]
    assert verdict_of("bash: ls -l", "ask") == ["allow: profile ask, it only reads"]
    assert verdict_of("read: /etc/passwd", "read-only") == ["allow: profile read-only"]
    assert verdict_of("bash: ls", "read-only")[0].startswith("refuse: permissions are read-only")
    assert verdict_of("bash: ls && git push -f", "edit") == [
        "ask: permissions are edit: tools that run commands need a person's consent (--yes gives it to all)",
        "  because of git push -f: git push is not listed",
        "  session would remember bash(=git push -f)",
        "  project would remember bash(=git push -f)",
        "  user would remember bash(=git push -f)",
        "  session+ would remember bash+(git push -f)",
        "  project+ would remember bash+(git push -f)",
        "  user+ would remember bash+(git push -f)",
    ]
    assert verdict_of("bash: ls | sort -o a", "ask")[1] == (
        "  because of sort -o a: the option -o of sort is not listed"
    )
    assert verdict_of("bash: ls $(make)", "edit")[1] == (
        "  because of $(make): $ expands to something that is known only at run time"
    )
    assert verdict_of("write: /etc/x", "edit")[0] == (
        "ask: permissions are edit: /etc/x is outside the working directory"
    )
    assert (
        verdict_of("fetch: https://example.com/x", "ask")[1] == "  session would remember fetch(example.com)"
    )
    out = ostler("permissions", "test", "--json", "bash: git push", "--permissions", "edit").out
    assert json.loads(out)["remember"]["user"] == ["bash(=git push)"]
    assert json.loads(out)["remember_wider"]["user"] == ["bash+(git push)"]
    assert json.loads(out)["causes"] == ["git push: git push is not listed"]


def test_revoking_a_rule_of_a_cut_session_ends_its_processes(ostler: Ostler, serve: Serve) -> None:
    # A process in the group of the command would be killed with the run.
    vendor = serve(turn(TOUCH), turn(call("bash", {"command": "setsid --wait cat gate"})))
    ostler.configure("allow = ['bash(setsid)']")
    session = waiting_run(ostler, vendor)
    os.mkfifo(ostler.work / "gate")
    driven = ostler.start("answer", session, "session", *use(vendor), "--permissions", "edit")
    opened: list[int] = []

    def is_read() -> bool:
        with suppress(OSError):  # nobody reads it yet
            opened.append(os.open(ostler.work / "gate", os.O_WRONLY | os.O_NONBLOCK))
        return bool(opened)

    wait_until(is_read)
    driven.kill()
    finish(driven)
    reader = select.poll()
    reader.register(opened[0], 0)
    assert reader.poll(0) == []
    assert ostler("permissions", "revoke", "1", "--session", session).code == 0
    wait_until(lambda: reader.poll(0) == [(opened[0], select.POLLERR)])
    os.close(opened[0])
    assert listed_rules(ostler) == [("allow", "bash(setsid)", "configuration")]
