"""The edit tool: some places of a file, all found before any is changed."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ostler.kernel.tool import BeforeCall, ToolContext, tool
from ostler.tools import file_kinds
from ostler.tools.atomic_write import write_atomically
from ostler.tools.diff import Diff, diff_of_splices, splice
from ostler.tools.freshness import MAX_DIGESTED, digest_of, last_seen, refuse_unless_fresh, remember
from ostler.tools.paths import missing, plain_failures, resolve, shown
from ostler.tools.replacements import Plan, Replacement, plan
from ostler.tools.threads import in_thread, to_its_end
from ostler.tools.truncation import size_text
from ostler.vocabulary.errors import ToolFailed
from ostler.vocabulary.outcomes import Ok, ok

_BOM = b"\xef\xbb\xbf"


class _Edited(msgspec.Struct, frozen=True):
    plan: Plan
    diff: Diff
    content: bytes
    digest: str


@tool(kind="edit")
async def edit(path: str, edits: list[Replacement], *, context: ToolContext) -> Ok:
    """Changes parts of a text file. Each edit replaces old_text, which must occur exactly once (or set
    replace_all), with new_text. All are matched against the file as it is before any is made; if one cannot
    be made, none is. The file must have been read in this session and be unchanged since.

    Args:
        path: the file, relative to the working directory or absolute
        edits: the replacements; they must not overlap
    """
    file = resolve(path, context.cwd)
    seen = await last_seen(context, file)
    name = shown(file, context.cwd)
    with plain_failures(path):
        edited = await to_its_end(lambda: _edit(file, path, name, edits, seen))
    remember(context.memory, file, edited.digest)
    count = len(edited.plan.splices)
    diff = edited.diff
    details = {
        "path": name,
        "edits": len(edits),
        "replacements": count,
        "first_line": diff.first_line,
        "diff": diff.text,
        "diff_truncated": diff.truncated,
        "digest": edited.digest,
    }
    rows = [
        f"edited {name}: {count} replacement{'' if count == 1 else 's'}, first at line {diff.first_line} "
        f"(+{diff.added} -{diff.removed} lines)"
    ]
    if edited.plan.loose:
        numbers = ", ".join(map(str, edited.plan.loose))
        rows.append(
            f"[edit {numbers}: matched after ignoring trailing blanks and kinds of quotes, dashes and spaces]"
        )
    return ok("\n".join(rows), details=details, summary=f"+{diff.added} -{diff.removed}")


@edit.objecting
async def _unchangeable(path: str, edits: list[Replacement], *, context: BeforeCall) -> None:
    file = resolve(path, context.cwd)
    seen = await last_seen(context, file)
    with plain_failures(path):
        await in_thread(lambda stop: _edited(file, path, shown(file, context.cwd), edits, seen))


def _edit(file: Path, given: str, name: str, edits: list[Replacement], seen: str | None) -> _Edited:
    edited = _edited(file, given, name, edits, seen)
    write_atomically(file, edited.content)
    return edited


def _edited(file: Path, given: str, name: str, edits: list[Replacement], seen: str | None) -> _Edited:
    """The file as it would be."""
    if not file.exists():
        raise missing(file, given)
    if not file.is_file():
        raise ToolFailed(f"{given} is not a regular file: only text files can be edited")
    size = file.stat().st_size
    if size > MAX_DIGESTED:
        raise ToolFailed(f"{given} is too large to edit ({size_text(size)}): use bash, for instance with sed")
    before = file.read_bytes()
    refuse_unless_fresh(given, seen, digest_of(before))
    if file_kinds.is_binary(before):
        raise ToolFailed(
            f"{given} is binary ({file_kinds.binary_kind(before)}): only text files can be edited"
        )
    mark = _BOM if before.startswith(_BOM) else b""
    # Bytes that are not UTF-8 pass through as they are.
    original = before.removeprefix(mark).decode("utf-8", "surrogateescape")
    made = plan(original, edits)
    try:
        after = mark + splice(original, made.splices).encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise ToolFailed("nothing was changed\nnew_text is not valid text: it has a lone surrogate") from None
    diff = diff_of_splices(original, made.splices, name)
    return _Edited(made, diff, after, digest_of(after))
