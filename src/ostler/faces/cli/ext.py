"""`ostler ext`: extensions that are there, and those of others: installing, updating, removing them."""

from __future__ import annotations

import argparse
import signal
from pathlib import Path
from shlex import quote
from typing import NoReturn

from ostler.extensions.installing.manifest import Package, Scope, project_scope, read_manifest, user_scope
from ostler.faces.cli.arguments import Parser
from ostler.faces.cli.columns import one_line
from ostler.faces.cli.directory import working_directory
from ostler.faces.cli.person import ask_person, has_terminal
from ostler.faces.cli.saying import counted, say
from ostler.vocabulary.errors import NotFound, OstlerError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ostler.extensions.installing.packages import Outcome
    from ostler.extensions.installing.trial import Tried

LANGUAGES = ("python", "node", "any")
SHORT = 12
"""So many digits of a commit are enough for a person."""


def ext_command(arguments: list[str]) -> int:
    if not arguments or (arguments[0].startswith("-") and arguments[0] not in ("-h", "--help")):
        arguments = ["list", *arguments]
    options = _ext_parser().parse_args(arguments)
    # What is under way is ended and taken away, as with Ctrl-C.
    before = signal.signal(signal.SIGTERM, _terminated)
    try:
        code: int | None = options.command(options)
    finally:
        signal.signal(signal.SIGTERM, before)
    return code or 0


def _terminated(number: int, frame: object) -> NoReturn:
    raise SystemExit(128 + number)


def _ext_parser() -> Parser:
    parser = Parser(
        prog="ostler ext",
        description="Extensions: list those that count here, install those of others, write your own. "
        "An extension is code that runs with your rights.",
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=Parser)

    def add(name: str, about: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.")

    one = add("list", "list the extensions of this directory in the order they are loaded (the default)")
    one.add_argument("--json", action="store_true", help="one JSON object a line")
    one.set_defaults(command=_list)
    one = add(
        "install", "install a package of extensions, try it in a process of its own, and use it from now on"
    )
    one.add_argument(
        "source",
        metavar="SOURCE",
        help="github.com/OWNER/REPOSITORY, git:HOST/PATH, https://…, ssh://…, git@HOST:PATH or file://…, "
        "each with @REF to pin it; a path; or NAME or NAME==VERSION on PyPI",
    )
    _add_local(one)
    one.add_argument("--name", metavar="NAME", default="", help="what to call the package")
    one.add_argument(
        "--include",
        metavar="PATH",
        action="append",
        default=[],
        help="only this extension of the package; may be repeated",
    )
    one.add_argument("--link", action="store_true", help="use a path where it is, instead of a copy")
    one.add_argument(
        "--build", action="store_true", help="let a package of PyPI be built here, which runs its code"
    )
    one.add_argument("--yes", action="store_true", help="do not ask")
    one.set_defaults(command=_install)
    one = add(
        "update", "fetch packages anew; those that are pinned stay, and one that does not load is not taken"
    )
    which = one.add_mutually_exclusive_group(required=True)
    which.add_argument("name", metavar="NAME", nargs="?", help="one package")
    which.add_argument("--all", action="store_true", help="all of them")
    _add_local(one)
    one.set_defaults(command=_update)
    for name, about, command in (
        ("remove", "remove a package and its files", _remove),
        ("enable", "use a package again", _enable),
        ("disable", "keep a package, but do not use it", _disable),
    ):
        one = add(name, about)
        one.add_argument("name", metavar="NAME", help="as `ostler ext list` shows it")
        _add_local(one)
        one.set_defaults(command=command)
    one = add("validate", "load extensions in a process of their own; exit code 1 if one cannot be loaded")
    one.add_argument(
        "path", metavar="PATH", nargs="?", help="a file or folder (default: all that count here)"
    )
    one.set_defaults(command=_validate)
    one = add("new", "write an extension to begin with, and a test for it")
    one.add_argument("name", metavar="NAME", help="its name, or the path of its new folder")
    one.add_argument("--lang", choices=LANGUAGES, default=LANGUAGES[0], help="its language (default: python)")
    one.set_defaults(command=_new)
    one = add("logs", "show what an extension in another language has said on standard error")
    one.add_argument("name", metavar="NAME")
    one.add_argument("-f", "--follow", action="store_true", help="go on with what is added")
    one.set_defaults(command=_logs)
    return parser


def _add_local(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--local", action="store_true", help="of this project, not of yours: in its .ostler")


def _scope(options: argparse.Namespace) -> Scope:
    return project_scope(working_directory()) if options.local else user_scope()


def _list(options: argparse.Namespace) -> int:
    from ostler.faces.cli.ext_listing import list_extensions

    return list_extensions(working_directory(), as_json=options.json)


def _validate(options: argparse.Namespace) -> int:
    from ostler.faces.cli.ext_listing import validate_extensions

    cwd = working_directory()
    return validate_extensions(cwd, None if options.path is None else Path(cwd, options.path))


def _new(options: argparse.Namespace) -> None:
    from ostler.extensions.installing.scaffold import write_scaffold

    cwd = working_directory()
    folder = Path(cwd, options.name)
    for file in write_scaffold(folder, options.lang):
        print(f"wrote {one_line(str(file.relative_to(cwd) if file.is_relative_to(cwd) else file))}")
    say(f"`ostler ext install --link {quote(str(folder))}` puts it to use")


def _logs(options: argparse.Namespace) -> None:
    from ostler.faces.cli.ext_logs import show_log

    show_log(options.name, follow=options.follow)


def _install(options: argparse.Namespace) -> None:
    from ostler.extensions.installing.packages import Wish, install
    from ostler.extensions.installing.sources import parse_source

    source = parse_source(options.source, working_directory())
    wish = Wish(options.name, tuple(options.include), options.link, options.build)
    scope = _scope(options)

    def announce(package: Package) -> None:
        when = "once `ostler trust` has been said here" if options.local else "in all your sessions"
        say(
            f"{_titled(package)} from {package.source}: {_names(package)} will be loaded now, to try, "
            f"and then {when}, with your rights"
        )
        if has_terminal() and not options.yes and not ask_person("do you want that?"):
            raise UsageError("nothing was installed")

    if source.kind != "path":
        say(f"fetching {source.identity}")
    outcome = install(scope, source, wish, announce)
    _warn(outcome.tried)
    print(f"installed {_titled(outcome.package)}: {_names(outcome.package)}")
    if options.local:
        say("it is the project's: look at it, and say `ostler trust`, before it is used")


def _update(options: argparse.Namespace) -> int:
    from ostler.extensions.installing.packages import update

    scope = _scope(options)
    if not options.all:
        _there(options, scope)
    names = [one.name for one in read_manifest(scope).packages] if options.all else [options.name]
    if not names:
        say("there are no packages; `ostler ext install SOURCE` installs one")
    failed = False
    for name in names:
        try:
            _tell_update(
                update(scope, name, lambda new: say(f"{_titled(new)} is loaded, to try: {_names(new)}"))
            )
        except OstlerError as error:
            if not options.all:
                raise
            failed = True
            say(error.message)
    return 1 if failed else 0


def _tell_update(outcome: Outcome) -> None:
    package = outcome.package
    if outcome.change == "pinned":
        print(f"{package.name} is pinned to {package.ref}, and stays")
    elif outcome.change == "current":
        print(f"{_titled(package)} is the newest")
    else:
        print(f"updated {_titled(package)}: {_names(package)}")
    _warn(outcome.tried)


def _remove(options: argparse.Namespace) -> None:
    from ostler.extensions.installing.packages import remove

    scope = _scope(options)
    package = remove(scope, _there(options, scope).name)
    left = "" if package.folder else f"; {one_line(package.source)} is left as it is"
    print(f"removed {package.name}{left}")


def _enable(options: argparse.Namespace) -> None:
    _switch(options, enabled=True)


def _disable(options: argparse.Namespace) -> None:
    _switch(options, enabled=False)


def _switch(options: argparse.Namespace, *, enabled: bool) -> None:
    from ostler.extensions.installing.packages import set_enabled

    scope = _scope(options)
    was_other = set_enabled(scope, _there(options, scope).name, enabled)
    print(
        f"{options.name} is {'enabled' if enabled else 'disabled'}{'' if was_other else ' (it was already)'}"
    )


def _there(options: argparse.Namespace, scope: Scope) -> Package:
    """Says where else a package of that name is, before anybody looks for a spelling mistake."""
    try:
        return read_manifest(scope).named(options.name)
    except NotFound as error:
        other = user_scope() if options.local else project_scope(working_directory())
        if all(one.name != options.name for one in read_manifest(other).packages):
            raise
        hint = "leave out --local" if options.local else "say --local"
        raise NotFound(f"{error.message}; {other.root} has one: {hint}") from None


def _titled(package: Package) -> str:
    version = package.version[:SHORT] if package.kind == "git" else package.version
    return one_line(f"{package.name} {version}".rstrip())


def _names(package: Package) -> str:
    listed = ", ".join(one.name for one in package.extensions)
    return one_line(f"{counted(len(package.extensions), 'extension')} ({listed})")


def _warn(tried: tuple[Tried, ...]) -> None:
    for one in tried:
        if one.problem:
            say(f"{one.name} cannot be loaded: {one.problem}")
