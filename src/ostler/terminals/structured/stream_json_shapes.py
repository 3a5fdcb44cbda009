"""What Claude Code writes and reads, shape by shape. Whatever it may send, nothing here raises."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ostler.terminals.structured.driver import FileChange, Inquiry, Option, ToolUpdate
from ostler.vocabulary.usage import Usage

_OPTIONS: dict[str, tuple[str, ...]] = {
    "--print": (),
    "--input-format": ("stream-json",),
    "--output-format": ("stream-json",),
    "--verbose": (),
    "--include-partial-messages": (),
    "--permission-prompt-tool": ("stdio",),
}
_OF_ANOTHER_CONVERSATION = {"--resume", "-r", "--session-id", "--continue", "-c", "--fork-session"}
_WITH_A_NAME = {"--resume", "-r", "--session-id"}
_KINDS = {
    "Bash": "execute",
    "Edit": "edit",
    "Glob": "search",
    "Grep": "search",
    "NotebookEdit": "edit",
    "Read": "read",
    "WebFetch": "fetch",
    "WebSearch": "fetch",
    "Write": "edit",
}
_TELLING = ("command", "file_path", "notebook_path", "pattern", "url", "query", "description", "skill")
_LONGEST_TITLE = 120
_MOST = 10**15
_INQUIRES = "AskUserQuestion"

Json = dict[str, Any]


def with_options(command: Sequence[str], conversation: str = "") -> list[str]:
    """With the options that make it speak stream-JSON, where they were not given, and go on with that
    conversation instead of one that the command names."""
    words = list(_without_conversation(command)) if conversation else list(command)
    given = {"--print" if word == "-p" else word.partition("=")[0] for word in words}
    missing = [(option, *value) for option, value in _OPTIONS.items() if option not in given]
    resumed = ["--resume", conversation] if conversation else []
    return [*words, *[word for one in missing for word in one], *resumed]


def _without_conversation(command: Sequence[str]) -> Iterator[str]:
    first = next((place for place, word in enumerate(command) if "claude" in word), 0)
    yield from command[: first + 1]
    is_named = False
    for word in command[first + 1 :]:
        is_value = is_named and not word.startswith("-")
        is_named = word in _WITH_A_NAME
        if not is_value and word.partition("=")[0] not in _OF_ANOTHER_CONVERSATION:
            yield word


def call_of(name: str, tool: str, given: Any, *, begins: bool = False) -> ToolUpdate:
    arguments = given if isinstance(given, dict) else {}
    telling = [str(arguments[key]) for key in _TELLING if arguments.get(key)]
    return ToolUpdate(
        id=name,
        begins=begins,
        name=tool,
        title=" ".join(f"{tool} {telling[0] if telling else ''}".split())[:_LONGEST_TITLE],
        kind=_KINDS.get(tool, "other"),
        input=arguments,
        changes=_changes(arguments),
    )


def _changes(arguments: Json) -> tuple[FileChange, ...]:
    match arguments:
        case {"file_path": str(path), "old_string": str(old), "new_string": str(new)}:
            return (FileChange(path, old, new),)
        case {"file_path": str(path), "content": str(content)}:
            return (FileChange(path, None, content),)
    return ()


# --- what it asks -----------------------------------------------------------------------------------


def options_of(suggestions: Any) -> list[tuple[Option, Json | None]]:
    """Yes and no, and each lasting permission that the agent suggests, with what to send back for it."""
    lasting = [
        (Option(f"allow_always_{number}", f"Yes, and {_in_words(one)}", "allow_always"), one)
        for number, one in enumerate(_dicts_in(suggestions), 1)
    ]
    return [
        (Option("allow", "Yes", "allow_once"), None),
        *lasting,
        (Option("reject", "No", "reject_once"), None),
    ]


def _in_words(suggestion: Json) -> str:
    where = suggestion.get("destination") or "session"
    match suggestion:
        case {"type": "addRules", "rules": list(rules), "behavior": behavior}:
            named = [
                f"{rule.get('toolName')}({rule['ruleContent']})"
                if rule.get("ruleContent")
                else rule.get("toolName")
                for rule in _dicts_in(rules)
            ]
            return f"always {behavior} {', '.join(map(str, named))} ({where})"
        case {"type": "addDirectories", "directories": list(directories)}:
            return f"always allow {', '.join(map(str, directories))} ({where})"
        case {"type": "setMode", "mode": mode}:
            return f"switch to the permission mode {mode} ({where})"
    return f"{suggestion.get('type')} ({where})"


def verdict_of(chosen: str | None, options: list[tuple[Option, Json | None]], call: ToolUpdate) -> Json:
    if chosen is None:
        return INTERRUPTED
    option, suggestion = next(one for one in options if one[0].id == chosen)
    if not option.allows:
        return {"behavior": "deny", "message": "The user does not want this to be done."}
    lasting = {"updatedPermissions": [suggestion]} if suggestion else {}
    return {"behavior": "allow", "updatedInput": call.input, **lasting}


INTERRUPTED: Json = {"behavior": "deny", "message": "The user interrupted this.", "interrupt": True}
UNANSWERED: Json = {"behavior": "deny", "message": "The user does not want to answer this."}


def inquiries_of(call: ToolUpdate) -> list[Inquiry]:
    """What it asks with its tool for that, in order; nothing where a part of it cannot be understood."""
    if call.name != _INQUIRES:
        return []
    asked = [_inquiry(one, call) for one in _dicts_in((call.input or {}).get("questions"))]
    return asked if all(one.text and one.choices for one in asked) else []


def _inquiry(asked: Json, call: ToolUpdate) -> Inquiry:
    options = {
        str(one["label"]): str(one.get("description") or "")
        for one in _dicts_in(asked.get("options"))
        if one.get("label")
    }
    about = [f"{label}: {description}" for label, description in options.items() if description]
    text = str(asked.get("question") or "")
    return Inquiry(call, text, tuple(options), asked.get("multiSelect") is True, "; ".join(about))


def answers_of(call: ToolUpdate, answers: dict[str, tuple[str, ...]]) -> Json:
    """What the tool is given: its questions again, and what was chosen for each."""
    chosen = {question: ", ".join(labels) for question, labels in answers.items()}
    return {"behavior": "allow", "updatedInput": {**(call.input or {}), "answers": chosen}}


# --- what it says -----------------------------------------------------------------------------------


def text_of(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(one.get("text", f"[{one.get('type')}]")) for one in _dicts_in(content))


def error_of(result: Json) -> str:
    errors = result.get("errors")
    told = "; ".join(map(str, errors)) if isinstance(errors, list) else ""
    return told or str(result.get("result") or result.get("subtype") or "unknown error").strip()


def usage_of(result: Json, cost: float | None) -> Usage:
    """Its tokens are those of the turn."""
    told = result.get("usage")
    used = told if isinstance(told, dict) else {}
    return Usage(
        input_tokens=_count(used.get("input_tokens")),
        output_tokens=_count(used.get("output_tokens")),
        cache_read_tokens=_count(used.get("cache_read_input_tokens")),
        cache_write_tokens=_count(used.get("cache_creation_input_tokens")),
        cost=cost,
    )


def paid_until(result: Json) -> float | None:
    """The cost of all turns of this life."""
    match result.get("total_cost_usd"):
        case int() | float() as paid if not isinstance(paid, bool) and 0 <= paid < _MOST:
            return float(paid)
    return None


def models_of(result: Json) -> str:
    told = result.get("modelUsage")
    return ", ".join(map(str, told)) if isinstance(told, dict) else ""


def _count(value: Any) -> int:
    match value:
        case int() if not isinstance(value, bool) and 0 <= value < _MOST:
            return value
    return 0


def _dicts_in(value: Any) -> list[Json]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
