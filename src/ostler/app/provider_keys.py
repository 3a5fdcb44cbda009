"""`ostler key`: keeping the keys of providers, and looking whether they work. No key is ever shown."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterator
from typing import NoReturn

import msgspec

from ostler.app.console import aligned
from ostler.app.options import Parser
from ostler.app.settings import Settings, load_settings, working_directory
from ostler.models.catalogue import Catalogue
from ostler.models.credentials import (
    Key,
    Source,
    check_key,
    fingerprint,
    forget_key,
    is_sendable,
    key_in_keyring,
    places_of_key,
    put_into_keyring,
    read_key_file,
    remove_from_keyring,
    store_key,
)
from ostler.models.factory import ModelFactory, for_any_model, key_search, names_vendor_of_key
from ostler.models.providers import Provider, configured_providers
from ostler.schema.errors import NoModel, NotFound, UsageError
from ostler.store.paths import key_file

_LONGEST = 64 * 1024


class _SilentParser(Parser):
    """Does not repeat its arguments in errors: they may be a key."""

    def error(self, message: str) -> NoReturn:
        super().error("invalid arguments (a key is never passed as an argument)")


UNUSABLE = "stored, but there is no such provider any more"


class Row(msgspec.Struct, frozen=True):
    """A source of a key, as `list` shows it."""

    provider: str
    source: Source
    where: str
    fingerprint: str
    """Of the key; empty if a command or the keyring would have to be asked for it."""
    used: bool
    """False if another source takes precedence."""


def key_command(arguments: list[str]) -> int:
    options = _key_parser().parse_args(arguments)
    settings = load_settings(working_directory(), {}).settings
    if options.command == "set":
        _set(options, settings)
    elif options.command == "remove":
        _remove(provider_named(options.provider, settings), settings)
    elif options.command == "test":
        return _test(options, settings)
    else:
        _list(settings, as_json=options.command == "list" and options.json)
    return 0


def _key_parser() -> Parser:
    parser = _SilentParser(
        prog="ostler key",
        description="Stores, lists, removes and tests API keys of providers. A key is never printed.",
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", parser_class=_SilentParser)

    def add(name: str, about: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.")

    one = add("set", "store a provider's key, typed without echo or piped in")
    one.add_argument("provider", metavar="PROVIDER")
    one.add_argument("given", nargs="*", help=argparse.SUPPRESS)
    one.add_argument("--keyring", action="store_true", help="use the system's keyring instead of a file")
    one = add("list", "list where each key comes from, in order of precedence (the default)")
    one.add_argument("--json", action="store_true", help="print one JSON object per line")
    one = add("remove", "delete a stored key")
    one.add_argument("provider", metavar="PROVIDER")
    one = add("test", "send a minimal request, and print whether the key works")
    one.add_argument("provider", metavar="PROVIDER", nargs="?", help="default: every provider with a key")
    one.add_argument("--model", metavar="ID", help="the model to call (default: the provider's default)")
    one.add_argument("--base-url", metavar="URL", help="a server that speaks its protocol")
    return parser


def provider_named(name: str, settings: Settings) -> Provider:
    providers = configured_providers(settings.providers)
    if name in providers:
        return providers[name]
    if name in read_key_file(key_file()):  # removed from the configuration since
        return Provider(name=name)
    raise UsageError(f"there is no such provider; the providers are: {', '.join(providers)}")


def _set(options: argparse.Namespace, settings: Settings) -> None:
    if options.given:
        raise UsageError(
            "a key must not be an argument, which other users and the shell's history can see: "
            "type it at the prompt, or pipe it in"
        )
    provider = provider_named(options.provider, settings)
    where = store_provider_key(provider, _read_key(provider), in_keyring=options.keyring)
    print(f"stored the key for {provider.name} in {where}; `ostler key test {provider.name}` tests it")
    used = next(_places(provider, settings))
    if used.source not in ("file", "keyring"):
        print(f"ostler: the key from {used.where} takes precedence", file=sys.stderr)


def store_provider_key(provider: Provider, given: str, *, in_keyring: bool = False) -> str:
    """Stores a typed key and returns where. Raises `UsageError` if it cannot be a key."""
    key = given.strip()
    if not key:
        raise UsageError("there is no key: type it at the prompt, or pipe it in")
    if not is_sendable(key):
        raise UsageError("the key contains characters that no key has: copy it again")
    if in_keyring:
        put_into_keyring(provider.name, key)
    elif read_key_file(key_file()).get(provider.name, "") is None:
        remove_from_keyring(provider.name)
    store_key(key_file(), provider.name, None if in_keyring else key)
    return "the keyring" if in_keyring else str(key_file())


def _read_key(provider: Provider) -> str:
    if sys.stdin is None or not sys.stdin.isatty():
        text = "" if sys.stdin is None else sys.stdin.buffer.read(_LONGEST).decode(errors="replace")
    else:
        from getpass import getpass

        try:
            text = getpass(f"key for {provider.name} (not echoed): ")
        except EOFError:
            text = ""
    return text


def _places(provider: Provider, settings: Settings) -> Iterator[Key]:
    # Without a model it is unknown whose key the settings have.
    settings = settings if settings.model else for_any_model(settings)
    return places_of_key(provider, key_search(settings, provider))


def _rows(settings: Settings) -> Iterator[Row]:
    for provider in configured_providers(settings.providers).values():
        for number, key in enumerate(_places(provider, settings)):
            shown = fingerprint(key.value) if key.value else ""
            yield Row(provider.name, key.source, key.where, shown, used=number == 0)
    known = configured_providers(settings.providers)
    for name, value in read_key_file(key_file()).items():
        if name not in known:
            source: Source = "file" if value else "keyring"
            yield Row(name, source, UNUSABLE, fingerprint(value) if value else "", used=False)


def _list(settings: Settings, as_json: bool) -> None:
    if as_json:
        for row in _rows(settings):
            sys.stdout.buffer.write(msgspec.json.encode(row) + b"\n")
    elif lines := list_keys(settings):
        for line in lines:
            print(line)
    else:
        print("ostler: there are no keys; `ostler key set PROVIDER` stores one", file=sys.stderr)


def list_keys(settings: Settings) -> list[str]:
    """The sources of keys, a line each."""
    rows = list(_rows(settings))
    return list(aligned([_cells(row) for row in rows])) if rows else []


def _cells(row: Row) -> tuple[str, ...]:
    note = "" if row.used or row.where == UNUSABLE else "(not used: the one above takes precedence)"
    return (row.provider, row.where, row.fingerprint or "–", note)


def _remove(provider: Provider, settings: Settings) -> None:
    remove_key(provider)
    print(f"deleted the key for {provider.name}")
    if other := next(_places(provider, settings), None):
        print(f"ostler: there is still a key from {other.where}", file=sys.stderr)


def remove_key(provider: Provider) -> None:
    """Deletes a stored key. Raises `NotFound` if there is none."""
    stored = read_key_file(key_file())
    in_keyring = stored.get(provider.name, "") is None or bool(key_in_keyring(provider.name))
    if provider.name not in stored and not in_keyring:
        raise NotFound(f"no key is stored for {provider.name}; `ostler key list` shows where keys come from")
    if in_keyring:
        remove_from_keyring(provider.name)
    forget_key(key_file(), provider.name)


def _test(options: argparse.Namespace, settings: Settings) -> int:
    if options.provider:
        providers = [provider_named(options.provider, settings)]
    else:
        with_key = {row.provider for row in _rows(settings)}
        providers = [one for one in configured_providers(settings.providers).values() if one.name in with_key]
        if not providers:
            raise NoModel("there is no key to test; `ostler key set PROVIDER` stores one")
    if not options.provider and (options.model or options.base_url):
        raise UsageError("--model and --base-url need a PROVIDER")
    works = [_works(provider, options, settings) for provider in providers]
    return 0 if all(works) else 1


def _works(provider: Provider, options: argparse.Namespace, settings: Settings) -> bool:
    is_own = names_vendor_of_key(settings, provider) and bool(settings.model or options.provider)
    if not is_own:
        settings = for_any_model(settings)
    model = options.model or _model_to_ask(provider, settings)
    name = model if model.startswith(f"{provider.name}/") else f"{provider.name}/{model}"
    settings = msgspec.structs.replace(settings, model=name, base_url=options.base_url or settings.base_url)
    refusal = asyncio.run(check_key(ModelFactory(settings)(name)))
    if refusal is not None:
        print(f"ostler: {' '.join(refusal.message.split())}", file=sys.stderr)
        return False
    print(f"{name} answers: the key works")
    return True


def _model_to_ask(provider: Provider, settings: Settings) -> str:
    """The model that is set, the provider's default, or its cheapest in the catalogue."""
    named = Catalogue(aliases=settings.aliases).resolve(settings.model.strip())
    if named.startswith(f"{provider.name}/"):
        return named
    if provider.default_model:
        return provider.default_model
    priced = [
        (one.prices.input or 0.0, one.name.partition("/")[2])
        for one in Catalogue(settings.models).models()
        if one.name.startswith(f"{provider.name}/") and one.prices and one.tools and not one.deprecated
    ]
    if not priced:
        raise UsageError(f"name the model of {provider.name} to call with --model ID")
    return min(priced)[1]
