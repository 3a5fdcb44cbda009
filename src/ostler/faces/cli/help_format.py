"""Help that reads the same on every version of Python.

argparse changed its layout in 3.13 (options, usage, subcommands) and its colours in 3.14. What differs is
written here, so that the documentation can be compared byte for byte, and a user finds in it what is printed.
"""

from __future__ import annotations

import argparse

TYPE_CHECKING = False  # not from typing, which takes longer to import than all of this to run
if TYPE_CHECKING:
    from collections.abc import Iterable


class HelpFormatter(argparse.HelpFormatter):
    """Options as `-s, --long VALUE`, help texts in one column, and a usage that breaks between options."""

    def add_argument(self, action: argparse.Action) -> None:
        super().add_argument(action)
        if action.help is argparse.SUPPRESS:
            return
        # Before 3.13 the names of subcommands were measured without their indentation.
        for command in self._iter_indented_subactions(action):
            length = len(self._format_action_invocation(command)) + self._current_indent
            self._action_max_length = max(self._action_max_length, length)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        return self._with_value(", ".join(action.option_strings), action)

    def _format_usage(
        self,
        usage: str | None,
        actions: Iterable[argparse.Action],
        groups: Iterable[argparse._MutuallyExclusiveGroup],
        prefix: str | None,
    ) -> str:
        if usage is not None:
            return super()._format_usage(usage, actions, groups, prefix)
        prefix = "usage: " if prefix is None else prefix
        options, positionals = self._usage_parts(actions, groups)
        width = self._width - self._current_indent
        in_one_line = " ".join([prefix + self._prog, *options, *positionals])
        if len(in_one_line) <= width:
            return f"{in_one_line}\n\n"
        indent = len(prefix) + len(self._prog) + 1
        if indent > 0.75 * width:  # a narrow terminal: the program has a line of its own
            indent = len(prefix)
            lines = [prefix + self._prog, *_wrapped(options, indent, width)]
        else:
            first, *others = _wrapped(options or positionals, indent, width)
            lines = [f"{prefix}{self._prog} {first[indent:]}", *others]
            positionals = positionals if options else []
        return "\n".join([*lines, *_wrapped(positionals, indent, width)]) + "\n\n"

    def _usage_parts(
        self, actions: Iterable[argparse.Action], groups: Iterable[argparse._MutuallyExclusiveGroup]
    ) -> tuple[list[str], list[str]]:
        """What the usage says of options and of positionals. Those that exclude each other are one part,
        among the options if one of them is an option."""
        shown = [action for action in actions if action.help is not argparse.SUPPRESS]
        shown.sort(key=lambda action: not action.option_strings)
        group_of = {action: group for group in groups for action in group._group_actions}
        options: list[str] = []
        positionals: list[str] = []
        for action in shown:
            parts = options if action.option_strings else positionals
            group = group_of.get(action)
            if group is None:
                part = self._usage_of(action)
                parts.append(f"[{part}]" if action.option_strings and not action.required else part)
                continue
            members = [member for member in shown if group_of.get(member) is group]
            if action is members[0]:
                choices = " | ".join(map(self._usage_in_group, members))
                parts.append(f"({choices})" if group.required else f"[{choices}]")
        return options, positionals

    def _usage_of(self, action: argparse.Action) -> str:
        if not action.option_strings:
            return self._format_args(action, self._get_default_metavar_for_positional(action))
        if action.nargs == 0:
            return action.format_usage()
        return self._with_value(action.option_strings[0], action)

    def _usage_in_group(self, action: argparse.Action) -> str:
        part = self._usage_of(action)
        is_in_brackets = not action.option_strings and part.startswith("[") and part.endswith("]")
        return part[1:-1] if is_in_brackets else part

    def _with_value(self, option: str, action: argparse.Action) -> str:
        value = self._format_args(action, self._get_default_metavar_for_optional(action))
        return f"{option} {value}".rstrip()  # a switch that --name=false turns off has a value without a name


class RawHelpFormatter(HelpFormatter, argparse.RawDescriptionHelpFormatter):
    """The same, with the lines of description and epilogue as they are written."""


def _wrapped(parts: list[str], indent: int, width: int) -> list[str]:
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + 1 + len(part) <= width:
            lines[-1] += f" {part}"
        else:
            lines.append(" " * indent + part)
    return lines
