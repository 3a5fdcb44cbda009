"""The permission hook of a session, its questions, and the rules that answers remember."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import cast

import msgspec

from ostler.core.hooks import Allow, Ask, Hook, PlannedCall, Refuse
from ostler.core.lazy import lazy_module
from ostler.core.tool import FileRules, ToolKind
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
from ostler.store.paths import configuration_file, home_folder, project_folder, state_folder
from ostler.tools import BUILTIN_TOOLS, builtin_tool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ostler.permissions import judge as judge_module
    from ostler.permissions import memory
    from ostler.permissions import offers as offers_module
    from ostler.permissions.judge import Judgement
    from ostler.permissions.offers import Offers, Scope
else:
    judge_module = lazy_module("ostler.permissions.judge")
    memory = lazy_module("ostler.permissions.memory")
    offers_module = lazy_module("ostler.permissions.offers")

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
    """A hook that judges every call by the profile and by rules; None if the profile allows everything.

    `recall` returns the rules remembered outside the session. It is called for each call, so a revoked rule
    no longer counts. `scopes` are where a question offers to remember its answer.
    """
    # Resolved once: if the folder is replaced by a link, what the link leads to is outside.
    cwd = (cwd or Path.cwd()).resolve()
    if profile == "full" and recall is tuple and not any(rule.restricts for rule in rules):
        return None

    def guard(planned: PlannedCall) -> Refuse | Ask | Allow:
        origin = "remembered in this session"
        session = [
            parse_rule(rule, cast(Effect, effect), origin=origin) for rule, effect in planned.remembered
        ]
        applying = [rule for rule in (*rules, *recall(), *session) if _may_concern(rule, planned)]
        names_file = planned.kind in ("read", "search", "edit")
        is_allowed = not applying and judge(profile, planned.kind) == "allow" and not names_file
        if is_allowed or (profile == "full" and not any(rule.restricts for rule in applying)):
            return Allow(by_profile(profile))
        judgement = _judge(profile, applying, cwd).judge(planned.name, planned.kind, planned.arguments)
        if judgement.verdict == "allow":
            return Allow(preview_line(judgement.reason), judgement.is_harmless, judgement.path)
        if judgement.verdict == "refuse":
            return Refuse(judgement.reason)
        return Ask(_question(planned, judgement, cwd, scopes), by="permission", path=judgement.path)

    def files(remembered: Sequence[tuple[str, str]]) -> FileRules:
        session = [parse_rule(rule, cast(Effect, effect)) for rule, effect in remembered]
        return _judge(profile, [*rules, *recall(), *session], cwd)

    return Hook("before_tool", guard, guard=True, name="permission", files=files)


def _may_concern(rule: Rule, planned: PlannedCall) -> bool:
    """Whether the rule covers the call; one about files also covers commands, which write and read them."""
    if planned.kind == "execute" and (rule.covers("write", "edit") or rule.covers("read", "read")):
        return True
    return rule.covers(planned.name, planned.kind)


def user_guard(profile: Profile, cwd: Path, rules: Sequence[Rule]) -> Hook | None:
    """The permission hook of a user's own session: remembered rules apply, and answers can add to them."""
    return permission_hook(
        profile, cwd, rules, recall=lambda: memory.remembered_rules(cwd), scopes=EVERYWHERE
    )


def configured_rules(allow: Sequence[str], ask: Sequence[str], deny: Sequence[str]) -> list[Rule]:
    """The rules of the configuration files."""
    texts = {"allow": allow, "ask": ask, "deny": deny}
    return [parse_rule(text, effect) for effect in EFFECTS for text in texts[effect]]


def _question(planned: PlannedCall, judgement: Judgement, cwd: Path, scopes: Sequence[str]) -> Question:
    project = project_folder(cwd)
    offers = _offers(planned.name, judgement, cwd, project)
    offered = {scope: list(rules) for scope, rules in offers.rules.items() if scope in scopes}
    wider = {scope: list(rules) for scope, rules in offers.wider.items() if scope in scopes}
    text = f"Allow {planned.name}: {preview(planned.name, planned.arguments)}"
    if parts := _parts(judgement):
        text += f" (because of: {'; '.join(parts)})"
    details = {"tool": planned.name, "arguments": planned.arguments}
    if causes := _causes(judgement):
        details["causes"] = list(causes)
    if offered:
        details["remember"] = offered
        details["project"] = str(project)
        if wider:
            details["remember_wider"] = wider
        text += _offer(offered, wider)
    choices = ("yes", *offered, "no")
    return Question(text=text, kind="permission", choices=choices, details=details, reason=judgement.reason)


def _offers(tool: str, judgement: Judgement, cwd: Path, project: Path) -> Offers:
    asked = [offers_module.Asked(one.subject, bool(one.part), one.access) for one in judgement.findings]
    return offers_module.offers_for(tool, asked, cwd, project)


def _causes(judgement: Judgement) -> tuple[str, ...]:
    """What exactly in a command needs a person, a line for each part."""
    causes = (f"{preview_line(one.part)}: {one.cause}" for one in judgement.findings if one.cause)
    return tuple(dict.fromkeys(causes)) if judgement.verdict != "allow" else ()


def _parts(judgement: Judgement) -> tuple[str, ...]:
    """The parts of a command that are not allowed; none if that is the whole command."""
    if judgement.is_whole or judgement.verdict == "allow":
        return ()
    return tuple(dict.fromkeys(preview_line(one.part) for one in judgement.findings if one.part))


def _offer(offered: dict[Scope, list[str]], wider: dict[Scope, list[str]]) -> str:
    """The rules that each answer would remember; answers with the same rules are listed together."""
    together: dict[str, list[str]] = {}
    for scope, rules in offered.items():
        together.setdefault(", ".join(rules), []).append(scope)
    for scope, rules in wider.items():
        together.setdefault(", ".join(rules), []).append(f"{scope}{offers_module.WIDER}")
    offers = (f"{'/'.join(answers)} remembers {rules}" for rules, answers in together.items())
    return f" [{'; '.join(offers)}]"


class DryRun(msgspec.Struct, frozen=True, omit_defaults=True):
    """The verdict on a call that is not made."""

    verdict: Verdict
    reason: str = ""
    parts: tuple[str, ...] = ()
    """The parts of a command that are the reason."""
    causes: tuple[str, ...] = ()
    """What exactly in those parts is the reason."""
    remember: dict[Scope, tuple[str, ...]] = {}
    """The rules that each scope would remember, if the person chose it."""
    remember_wider: dict[Scope, tuple[str, ...]] = {}
    """The wider rules that the person could choose instead."""


def dry_run(tool: str, what: str, profile: Profile, rules: Sequence[Rule], cwd: Path) -> DryRun:
    """The verdict on a call of a tool, without making it: `what` is its command, path or URL."""
    kind: ToolKind = "fetch" if tool == "fetch" else "other"
    kind = builtin_tool(tool).spec.kind if tool in BUILTIN_TOOLS else kind
    argument = {"execute": "command", "fetch": "url", "other": "input"}.get(kind, "path")
    judged = _judge(profile, [*rules, *memory.remembered_rules(cwd)], cwd.resolve())
    judgement = judged.judge(tool, kind, {argument: what})
    offers = offers_module.Offers()
    if judgement.verdict == "ask":
        offers = _offers(tool, judgement, cwd, project_folder(cwd))
    return DryRun(
        judgement.verdict,
        judgement.reason,
        _parts(judgement),
        _causes(judgement),
        offers.rules,
        offers.wider,
    )


def _store_rule(rule: str, scope: str, where: str) -> None:
    if scope == "session":
        parse_rule(rule, "allow")  # the recorded event stores it
    elif scope == "project" and not where:
        raise UsageError("the session was imported, and its project folder is not known")
    else:
        memory.remember(rule, "allow", Path(where) if where else None)


def remember_answer(asked: QuestionAsked, answered: QuestionAnswered, session: str) -> list[Event]:
    """Stores the rules of an answer to a permission question, in the scope that the answer names."""
    details = asked.question.details or {}
    answer = answered.answer.strip().lower() if isinstance(answered.answer, str) else ""
    scope = answer.removesuffix(offers_module.WIDER)
    offered = details.get("remember" if scope == answer else "remember_wider")
    rules = offered.get(scope, ()) if isinstance(offered, dict) else ()
    events: list[Event] = []
    for rule in [rule for rule in rules if rule in asked.question.text]:  # only what the person saw
        where = {"session": session, "project": details.get("project", "")}.get(scope, "")
        try:
            _store_rule(rule, scope, where)
        except (ConfigurationError, UsageError) as error:
            events.append(Warned(f"the answer could not be remembered: {error.message}", about="tool"))
            continue
        by, identity = answered.by, answered.identity
        remembered = PermissionRemembered(rule, "allow", cast("Scope", scope), where, by, "", identity)
        events.append(remembered)
    return events


def _judge(profile: Profile, rules: Iterable[Rule], cwd: Path) -> judge_module.Judge:
    readable = _offered_folders() if profile == "ask" else ()
    return judge_module.Judge(profile, rules, cwd, readable=readable)


def _offered_folders() -> tuple[Path, ...]:
    """Folders outside the workspace whose files the model is told to read: the user's skills and uploads."""
    home = home_folder()
    folders = [home / ".agents" / "skills"] if home else []
    with suppress(ConfigurationError):
        folders += [configuration_file().parent / "skills", state_folder() / "uploads"]
    return tuple(folder.resolve() for folder in folders)
