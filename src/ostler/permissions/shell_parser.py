"""Parses a shell command into the parts to judge: everything that bash would run, write or read.

Anything that is not certain to be understood is `Unparsed`, and so is what this parser is known to read
differently from bash.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from ostler.permissions.known_programs import unwrapped
from ostler.permissions.shell_words import (
    Command,
    FileRead,
    FileWrite,
    ParsedCommand,
    Part,
    Unparsed,
    are_apart,
    as_ascii,
    heredoc_problem,
    is_covered,
    is_plain_name,
    leading_folder,
    literal,
    may_be_several_words,
    text_of,
    word_set,
)

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

MAX_LENGTH = 20_000

MAX_PIPES = 500
"""The parser's time for an unfinished pipeline grows with the square of its length."""

MAX_DEPTH = 60


@cache
def _parser() -> Parser:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


def parse_command(command: str) -> ParsedCommand:
    """Every part of the command, including those in substitutions, wrappers and quoted scripts."""
    reader = _Reader()
    reader.read(command)
    if not reader.parts and not reader.has_inert and command.strip():
        reader.parts.append(Unparsed("nothing in it can be judged", command))
    return ParsedCommand(tuple(dict.fromkeys(reader.parts)), reader.folder())


_OWN_NAMES = re.compile(r"(?!\w*proxy$)[a-z_][a-z0-9_]*")
"""Variables of the script. Those that programs and the shell use are in capitals."""

_DEVICES = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})

_HARMLESS_EXPANSION = re.compile(
    r"\$\{#?(?:\w+|[@*#?$!-])(?:\[(?:[@*]|\d+)\])?(?:(?::?[-+?]|##?|%%?|//?)[^$`]*)?\}"
)

_HARMLESS_ARITHMETIC = re.compile(r"\$\(\([\d\s+\-*/%()]*\)\)")
_TEST_TOKENS = word_set("[ ] [[ ]] ( ) ! && || = == != < > -a -o")
_TEST_OPERATORS = word_set("-e -f -d -s -r -w -x -z -n -L -h -nt -ot")

_TEST_NODES = word_set(
    "test_command unary_expression binary_expression negation_expression parenthesized_expression"
)

_CONTAINERS = word_set(
    "program list pipeline subshell if_statement elif_clause else_clause while_statement do_group "
    "negated_command case_statement case_item redirected_statement command_substitution "
    "process_substitution herestring_redirect string concatenation translated_string expansion"
)

_WORDS = word_set(
    "word number string raw_string concatenation simple_expansion expansion arithmetic_expansion "
    "ansi_c_string translated_string extglob_pattern brace_expression"
)

_TOKENS = word_set(
    '; ;; ;& ;;& && || | |& & ( ) $( ` <( >( { } ! <<< " $" if then elif else fi for select in do done while '
    "until case esac"
) | {"\n"}

_RESERVED = word_set("! { } [[ ]] if then elif else fi for select in do done while until case esac function")

_INERT = word_set(
    "word number raw_string string_content variable_name special_variable_name ansi_c_string comment "
    "extglob_pattern brace_expression simple_expansion file_descriptor heredoc_content"
)

_MOVES = ("cd", "pushd", "popd")
_ARGUMENT_BEFORE = "an argument follows a redirection"
_UNCERTAIN_END = "it is uncertain where a word ends"
_NOT_JUDGED = "this cannot be judged"
_SETS_VARIABLE = "it sets a variable that other programs may use"
_UNQUOTED_IN_TEST = "a value without quotes inside [ ]"


class _Reader:
    def __init__(self, depth: int = 0) -> None:
        self.parts: list[Part] = []
        self.has_inert = False
        """There is something that needs no judgement, such as a test."""
        self._depth = depth
        self._leading_folder: str | None = None
        self._redefines = False
        self._source = b""

    def read(self, command: str) -> None:
        if len(command) > MAX_LENGTH or command.count("|") > MAX_PIPES or self._depth > MAX_DEPTH:
            self._unclear("it is too long to be judged", command)
            return
        if any(not c.isprintable() and c not in "\n\t" for c in command):
            self._unclear("it has invisible characters", command)
        source = as_ascii(command)
        if source is None:
            self._unclear("it has words that the parser cannot read", command)
            return
        root = _parser().parse(source).root_node
        if root.has_error or not is_covered(root, source):
            self._unclear("it does not parse", command)
        if re.search(r"\S\\\n", command):
            self._unclear(_UNCERTAIN_END, command)
        self._source = source
        self._leading_folder = leading_folder(root)
        self._walk(root, self._depth)

    def folder(self) -> str | None:
        """The folder of a `cd` that everything else depends on; None after any other `cd`."""
        moves = [part for part in self.parts if isinstance(part, Command) and part.words[0] in _MOVES]
        if self._redefines or len(moves) > 1:
            return None
        return self._leading_folder if moves else "."

    def _unclear(self, why: str, source: str) -> None:
        self.parts.append(Unparsed(why, source))

    def _walk(self, node: Node, depth: int) -> None:
        if depth > MAX_DEPTH:
            self._unclear("it is too deeply nested", text_of(node))
            return
        kind = node.type
        if kind == "command":
            self._command(node, depth)
        elif kind == "file_redirect":
            self._redirection(node, depth)
        elif kind == "heredoc_redirect":
            self._heredoc(node, depth)
        elif kind in ("variable_assignment", "variable_assignments"):
            self._assignment(node, depth)
        elif kind == "test_command":
            self._test(node, depth)
        elif kind == "for_statement":
            self._loop(node, depth)
        elif kind == "function_definition":
            self._redefines = True
            body = node.child_by_field_name("body")
            for child in node.named_children if body is None else [body]:
                self._walk(child, depth + 1)
        elif kind == "compound_statement" and re.match(r"\{\s", text_of(node)):
            self._children(node, depth)
        elif kind == "expansion" and not _HARMLESS_EXPANSION.fullmatch(text_of(node)):
            self._not_understood(node, depth, "its value may run something")
        elif kind == "arithmetic_expansion":
            if not _HARMLESS_ARITHMETIC.fullmatch(text_of(node)):
                self._not_understood(node, depth, "arithmetic may run something")
        elif kind == "command_substitution" and "`" in text_of(node)[:1] and "\\" in text_of(node):
            self._not_understood(node, depth, "backslashes inside backquotes")
        elif _runs_together(node):
            self._not_understood(node, depth, _UNCERTAIN_END)
        elif kind in _CONTAINERS:
            self._children(node, depth)
        elif kind not in _INERT:
            self._not_understood(node, depth, _NOT_JUDGED)

    def _children(self, node: Node, depth: int) -> None:
        tokens = {one.type for one in node.children if not one.is_named}
        if node.type != "expansion" and not tokens <= _TOKENS:
            self._unclear(_NOT_JUDGED, text_of(node))
        for child in node.named_children:
            self._walk(child, depth + 1)

    def _not_understood(self, node: Node, depth: int, why: str) -> None:
        """Its children are judged too: a rule may deny them."""
        self._unclear(why, text_of(node))
        for child in node.named_children:
            if child.type not in ("variable_name", "subscript", "regex", "binary_expression"):
                self._walk(child, depth + 1)

    def _command(self, node: Node, depth: int) -> None:
        words: list[str | None] = []
        assignments: list[str] = []
        for child in node.children:
            if child.type == "variable_assignment":
                name = _assigned_name(child)
                if name is None:
                    self._unclear("a variable is set in a way that cannot be judged", text_of(child))
                elif not is_plain_name(name):
                    assignments.append(text_of(child))
                self._value(child, depth)
            elif child.type in ("file_redirect", "heredoc_redirect", "herestring_redirect"):
                self._walk(child, depth + 1)
            elif child.type == "command_name":
                words.append(literal(child.named_children[0]) if child.named_children else None)
                self._children(child, depth)
                if text_of(child) in _RESERVED:
                    self._unclear("it is not a program", text_of(node))
            elif child.type in _WORDS or child.type in ("command_substitution", "process_substitution"):
                words.append(literal(child))
                self._walk(child, depth + 1)
            else:
                words.append(None)
                self._not_understood(child, depth, _NOT_JUDGED)
        if not are_apart(node):
            self._unclear(_UNCERTAIN_END, text_of(node))
        if words:
            self._run(Command(tuple(words), text_of(node), tuple(assignments)), depth)

    def _run(self, command: Command, depth: int) -> None:
        """Adds a command, and the commands and scripts that it would run."""
        if not command.words or command.words[0] is None:
            self._unclear("which program runs is known only at run time", command.source)
            return
        inner = unwrapped(command)
        only_restricts = command.only_restricts or inner.stands_in
        self.parts.append(msgspec.structs.replace(command, only_restricts=only_restricts))
        if inner.problem:
            self._unclear(inner.problem, command.source)
        for script in inner.scripts:
            reader = _Reader(depth + 5)
            reader.read(script)
            self._redefines = self._redefines or reader._redefines
            self.parts += _restricting(reader.parts) if command.only_restricts else reader.parts
        for one in inner.commands:
            if depth > MAX_DEPTH:
                self._unclear("it is too deeply nested", command.source)
                return
            self._run(one, depth + 5)

    def _assignment(self, node: Node, depth: int) -> None:
        self.has_inert = True
        for one in [node] if node.type == "variable_assignment" else node.named_children:
            name = _assigned_name(one)
            if name is None or not (_OWN_NAMES.fullmatch(name) or is_plain_name(name)):
                self._unclear(_SETS_VARIABLE, text_of(one))
            self._value(one, depth)

    def _value(self, assignment: Node, depth: int) -> None:
        for child in assignment.named_children[1:]:
            self._walk(child, depth + 1)

    def _loop(self, node: Node, depth: int) -> None:
        variable = node.child_by_field_name("variable")
        if variable is None or not _OWN_NAMES.fullmatch(text_of(variable)):
            self._unclear(_SETS_VARIABLE, text_of(node))
        self._children(node, depth)

    def _redirection(self, node: Node, depth: int) -> None:
        operator = next((child.type for child in node.children if not child.is_named), "")
        targets = node.children_by_field_name("destination")
        source = text_of(node)
        for target in targets:
            self._walk(target, depth + 1)
        if not self._has_own_descriptor(node):
            self._unclear(_UNCERTAIN_END, source)
        if operator in (">&-", "<&-") and not targets:
            return
        if len(targets) != 1:
            self._unclear(_ARGUMENT_BEFORE, source)
            return
        path = literal(targets[0])
        if operator in (">&", "<&") and (targets[0].type == "number" or path == "-"):
            return
        if operator in (">&", "<&") and path is not None and path[:1] in "-0123456789":
            self._unclear("this redirection cannot be judged", source)
        elif path is None:
            self._unclear("the file is known only at run time", source)
        elif path.startswith(("/dev/tcp/", "/dev/udp/")):
            self._unclear("it opens a connection", source)
        elif operator == "<":
            self.parts.append(FileRead(path, source))
        elif operator in (">", ">>", ">|", "&>", "&>>", ">&"):
            if path not in _DEVICES:
                self.parts.append(FileWrite(path, source))
        else:
            self._unclear("this redirection cannot be judged", source)

    def _has_own_descriptor(self, redirection: Node) -> bool:
        """Whether the number before it is a descriptor; in `a2>b` it belongs to the word."""
        descriptor = redirection.child_by_field_name("descriptor")
        if descriptor is None:
            return True
        before = self._source[max(0, descriptor.start_byte - 1) : descriptor.start_byte]
        return before.decode() in "\n\t ;&|()" and text_of(descriptor).isdecimal()

    def _heredoc(self, node: Node, depth: int) -> None:
        problem = heredoc_problem(node)
        if problem:
            self._unclear(problem, text_of(node))
        for child in node.named_children:
            if child.type == "heredoc_body":
                self._children(child, depth)
            elif child.type in _WORDS:
                self._unclear(_ARGUMENT_BEFORE, text_of(child))
                self._walk(child, depth + 1)
            elif child.type not in ("heredoc_start", "heredoc_end", "file_descriptor"):
                self._walk(child, depth + 1)

    def _test(self, node: Node, depth: int) -> None:
        self.has_inert = True
        splits = node.children[0].type == "["
        waiting = [node]
        while waiting:
            one = waiting.pop()
            if one.type in _TEST_NODES:
                if splits and any(child.type in ("simple_expansion", "expansion") for child in one.children):
                    self._unclear(_UNQUOTED_IN_TEST, text_of(node))
                waiting += one.children
            elif one.type == "test_operator":
                if text_of(one) not in _TEST_OPERATORS:
                    self._unclear("this test may run something", text_of(node))
            elif not one.is_named:
                if one.type not in _TEST_TOKENS:
                    self._unclear("this test may run something", text_of(node))
            elif splits and one.type == "command_substitution":
                self._not_understood(one, depth, _UNQUOTED_IN_TEST)
            else:
                self._walk(one, depth + 1)


def _runs_together(node: Node) -> bool:
    if node.type == "negated_command":
        return not re.match(r"!\s+[^!\s]", text_of(node))
    return node.type == "herestring_redirect" and may_be_several_words(node)


def _restricting(parts: list[Part]) -> list[Part]:
    return [
        msgspec.structs.replace(part, only_restricts=True) if isinstance(part, Command) else part
        for part in parts
    ]


def _assigned_name(assignment: Node) -> str | None:
    name: Any = assignment.child_by_field_name("name")
    if name is None or not re.fullmatch(r"[A-Za-z_]\w*", text_of(name), re.ASCII):
        return None
    return text_of(name)
