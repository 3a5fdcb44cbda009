"""Permission in a session: the last guard before a tool runs, and what becomes of a person's "always"."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import cast

import msgspec

from ostler.core.hooks import Allow, Ask, Hook, PlannedCall, Refuse
from ostler.core.lazy import lazy_module
from ostler.core.tool import ToolKind
from ostler.permissions.memory import project_folder, remember, remembered_rules
from ostler.permissions.rules import (
    EFFECTS,
    Effect,
    Profile,
    Rule,
    Verdict,
    by_profile,
    judge,
    parse_rule,
    preview,
    preview_line,
)
from ostler.schema.errors import ConfigurationError, UsageError
from ostler.schema.events import Event, PermissionRemembered, QuestionAnswered, QuestionAsked, Warned
from ostler.schema.outcomes import Question
from ostler.tools import BUILTIN_TOOLS, builtin_tool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ostler.permissions import judge as judge_module
    from ostler.permissions.judge import Judgement, Scope
else:
    judge_module = lazy_module("ostler.permissions.judge")

SESSION = ("session",)
EVERYWHERE = ("session", "project", "user")
Recall = Callable[[], Iterable[Rule]]


def permission_hook(
    profile: Profile,
    cwd: Path | None = None,
    rules: Sequence[Rule] = (),
    *,
    recall: Recall = tuple,
    scopes: Sequence[str] = SESSION,
) -> Hook | None:
    """Judges every call as it would run, by the profile and by rules.

    `recall` brings the rules that were remembered outside of the session, anew for each call: what is
    revoked counts no more. `scopes` are those that a question offers to remember its answer in.
    """
    cwd = cwd or Path.cwd()
    if profile == "full" and recall is tuple and not any(rule.restricts for rule in rules):
        return None

    def guard(planned: PlannedCall) -> Refuse | Ask | Allow:
        known = (*rules, *recall(), *_of_session(planned))
        applying = [rule for rule in known if _may_concern(rule, planned)]
        if not applying and judge(profile, planned.kind) == "allow" and planned.kind != "edit":
            return Allow(by_profile(profile))
        if profile == "full" and not any(rule.restricts for rule in applying):
            return Allow(by_profile(profile))
        judgement = _judge(profile, applying, cwd).judge(planned.name, planned.kind, planned.arguments)
        if judgement.verdict == "allow":
            return Allow(preview_line(judgement.reason))
        if judgement.verdict == "refuse":
            return Refuse(judgement.reason)
        return Ask(_question(planned, judgement, cwd, scopes), by="permission")

    return Hook("before_tool", guard, guard=True, name="permission")


def _of_session(planned: PlannedCall) -> list[Rule]:
    origin = "remembered in this session"
    return [parse_rule(rule, cast(Effect, effect), origin=origin) for rule, effect in planned.remembered]


def _may_concern(rule: Rule, planned: PlannedCall) -> bool:
    """Commands also write and read files."""
    if planned.kind == "execute" and (rule.covers("write", "edit") or rule.covers("read", "read")):
        return True
    return rule.covers(planned.name, planned.kind)


def user_guard(profile: Profile, cwd: Path, rules: Sequence[Rule]) -> Hook | None:
    """The guard of a session of the user's own: what they said to remember holds, and can be added to."""
    return permission_hook(profile, cwd, rules, recall=lambda: remembered_rules(cwd), scopes=EVERYWHERE)


def configured_rules(allow: Sequence[str], ask: Sequence[str], deny: Sequence[str]) -> list[Rule]:
    """The rules of the configuration files, which are known to be rules."""
    texts = {"allow": allow, "ask": ask, "deny": deny}
    return [parse_rule(text, effect) for effect in EFFECTS for text in texts[effect]]


def _question(planned: PlannedCall, judgement: Judgement, cwd: Path, scopes: Sequence[str]) -> Question:
    bases = judge_module.RuleBases(cwd, project_folder(cwd))
    rules = judge_module.suggest_rules(planned.name, judgement, bases)
    offered = {scope: list(rules[scope]) for scope in rules if scope in scopes}
    text = f"Allow {planned.name}: {preview(planned.name, planned.arguments)}"
    if parts := _parts(judgement):
        text += f" (because of: {'; '.join(parts)})"
    details = {"tool": planned.name, "arguments": planned.arguments}
    if offered:
        details["remember"] = offered
        details["project"] = str(project_folder(cwd))
        text += _offer(offered)
    return Question(
        text=text,
        kind="permission",
        choices=("yes", *offered, "no"),
        details=details,
        reason=judgement.reason,
    )


def _parts(judgement: Judgement) -> tuple[str, ...]:
    """The parts of a command that stand in its way, where that is not all of it."""
    if judgement.is_whole or judgement.verdict == "allow":
        return ()
    return tuple(dict.fromkeys(preview_line(one.part) for one in judgement.findings if one.part))


def _offer(offered: dict[Scope, list[str]]) -> str:
    """What each scope would remember, in words; scopes that would remember the same together."""
    together: dict[str, list[str]] = {}
    for scope, rules in offered.items():
        together.setdefault(", ".join(rules), []).append(scope)
    said = (f"{'/'.join(scopes)} remembers {rules}" for rules, scopes in together.items())
    return f" [{'; '.join(said)}]"


class DryRun(msgspec.Struct, frozen=True, omit_defaults=True):
    """What would happen to a call."""

    verdict: Verdict
    reason: str = ""
    parts: tuple[str, ...] = ()
    """The parts of a command that are the reason."""
    remember: dict[Scope, tuple[str, ...]] = {}
    """The rules that each scope would remember, if a person said so."""


def dry_run(tool: str, what: str, profile: Profile, rules: Sequence[Rule], cwd: Path) -> DryRun:
    """What would happen to a call of a tool: `what` is its command, path or URL."""
    kind: ToolKind = "fetch" if tool == "fetch" else "other"
    kind = builtin_tool(tool).spec.kind if tool in BUILTIN_TOOLS else kind
    argument = {"execute": "command", "fetch": "url", "other": "input"}.get(kind, "path")
    judgement = _judge(profile, [*rules, *remembered_rules(cwd)], cwd).judge(tool, kind, {argument: what})
    scopes: dict[Scope, tuple[str, ...]] = {}
    if judgement.verdict == "ask":
        scopes = judge_module.suggest_rules(tool, judgement, judge_module.RuleBases(cwd, project_folder(cwd)))
    return DryRun(judgement.verdict, judgement.reason, _parts(judgement), scopes)


def _store_rule(rule: str, scope: str, where: str) -> None:
    if scope == "session":
        parse_rule(rule, "allow")  # the fact stores it
    elif scope == "project" and not where:
        raise UsageError("the session came from elsewhere, and its project's folder is not known")
    else:
        remember(rule, "allow", Path(where) if where else None)


def remember_answer(asked: QuestionAsked, answered: QuestionAnswered, session: str) -> list[Event]:
    """Keeps what the answer to a permission question says to keep, in the scope that it names."""
    details = asked.question.details or {}
    scope = answered.answer.strip().lower() if isinstance(answered.answer, str) else ""
    offered = details.get("remember")
    rules = offered.get(scope, ()) if isinstance(offered, dict) else ()
    kept: list[Event] = []
    for rule in [rule for rule in rules if rule in asked.question.text]:  # what was shown, and nothing else
        where = {"session": session, "project": details.get("project", "")}.get(scope, "")
        try:
            _store_rule(rule, scope, where)
        except (ConfigurationError, UsageError) as error:
            kept.append(Warned(f"the answer could not be remembered: {error.message}", about="tool"))
            continue
        kept.append(PermissionRemembered(rule, "allow", cast("Scope", scope), where, answered.by))
    return kept


def _judge(profile: Profile, rules: Iterable[Rule], cwd: Path) -> judge_module.Judge:
    """`ask` means to be asked, also about a command that only looks."""
    return judge_module.Judge(profile, rules, cwd, looking=profile == "edit")
