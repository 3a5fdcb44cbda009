"""`ostler key`: stores, lists, removes and tests the API keys of providers. It never prints a key."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Iterator
from typing import NoReturn

import msgspec

from ostler.app.console import aligned, print_json, print_lines, print_stderr
from ostler.app.options import Parser, add_json, command_adder, default_to_list
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
UNUSABLE = "stored, but there is no such provider any more"


class _SilentParser(Parser):
    """Does not repeat its arguments in errors: they may be a key."""

    def error(self, message: str) -> NoReturn:
        super().error("invalid arguments (a key is never passed as an argument)")


class Row(msgspec.Struct, frozen=True):
    """A source of a key, as `list` shows it."""

    provider: str
    source: Source
    where: str
    fingerprint: str
    """Empty if only a command or the keyring has the key."""
    used: bool
    """False if another source takes precedence."""


def key_command(arguments: list[str]) -> int:
    options = _key_parser().parse_args(default_to_list(arguments))
    code: int | None = options.command(options, load_settings(working_directory(), {}).settings)
    return code or 0


def _key_parser() -> Parser:
    parser = _SilentParser(
        prog="ostler key",
        description="Stores, lists, removes and tests API keys of providers. A key is never printed.",
    )
    add = command_adder(parser, _SilentParser)
    one = add("set", "store a provider's key, typed without echo or piped in", _set)
    one.add_argument("provider", metavar="PROVIDER", help="such as anthropic or openai")
    one.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    one.add_argument("--keyring", action="store_true", help="use the system's keyring instead of a file")
    add_json(add("list", "list where each key comes from, in order of precedence (the default)", _list))
    one = add("remove", "delete a stored key", _remove)
    one.add_argument("provider", metavar="PROVIDER", help="such as anthropic or openai")
    one = add("test", "send a minimal request, and print whether the key works", _test)
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
    if options.words:
        raise UsageError(
            "a key must not be an argument, which other users and the shell's history can see: "
            "type it at the prompt, or pipe it in"
        )
    provider = provider_named(options.provider, settings)
    where = store_provider_key(provider, _read_key(provider), in_keyring=options.keyring)
    print(f"stored the key for {provider.name} in {where}; `ostler key test {provider.name}` tests it")
    used = next(_places(provider, settings))
    if used.source not in ("file", "keyring"):
        print_stderr(f"the key from {used.where} takes precedence")


def store_provider_key(provider: Provider, typed: str, *, in_keyring: bool = False) -> str:
    """Stores a typed key and returns where. Raises `UsageError` if it cannot be a key."""
    key = typed.strip()
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
    if sys.stdin is None:
        return ""
    if not sys.stdin.isatty():
        return sys.stdin.buffer.read(_LONGEST).decode(errors="replace")
    from getpass import getpass

    try:
        return getpass(f"key for {provider.name} (not echoed): ")
    except EOFError:
        return ""


def _places(provider: Provider, settings: Settings) -> Iterator[Key]:
    # Without a model it is unknown whose key the settings have.
    settings = settings if settings.model else for_any_model(settings)
    return places_of_key(provider, key_search(settings, provider))


def _rows(settings: Settings) -> Iterator[Row]:
    providers = configured_providers(settings.providers)
    for provider in providers.values():
        for number, key in enumerate(_places(provider, settings)):
            short = fingerprint(key.value) if key.value else ""
            yield Row(provider.name, key.source, key.where, short, used=number == 0)
    for name, value in read_key_file(key_file()).items():
        if name not in providers:
            source: Source = "file" if value else "keyring"
            yield Row(name, source, UNUSABLE, fingerprint(value) if value else "", used=False)


def _list(options: argparse.Namespace, settings: Settings) -> None:
    if options.json:
        print_json(*_rows(settings))
    elif lines := list_keys(settings):
        print_lines(lines)
    else:
        print_stderr("there are no keys; `ostler key set PROVIDER` stores one")


def list_keys(settings: Settings) -> list[str]:
    """The sources of keys, a line each."""
    return list(aligned([_cells(row) for row in _rows(settings)]))


def _cells(row: Row) -> tuple[str, ...]:
    note = "" if row.used or row.where == UNUSABLE else "(not used: the one above takes precedence)"
    return (row.provider, row.where, row.fingerprint or "–", note)


def _remove(options: argparse.Namespace, settings: Settings) -> None:
    provider = provider_named(options.provider, settings)
    remove_key(provider)
    print(f"deleted the key for {provider.name}")
    if other := next(_places(provider, settings), None):
        print_stderr(f"there is still a key from {other.where}")


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
    if not (names_vendor_of_key(settings, provider) and (settings.model or options.provider)):
        settings = for_any_model(settings)
    model = options.model or _model_to_call(provider, settings)
    name = model if model.startswith(f"{provider.name}/") else f"{provider.name}/{model}"
    settings = msgspec.structs.replace(settings, model=name, base_url=options.base_url or settings.base_url)
    refusal = asyncio.run(check_key(ModelFactory(settings)(name)))
    if refusal is not None:
        print_stderr(refusal.message)
        return False
    print(f"{name} answers: the key works")
    return True


def _model_to_call(provider: Provider, settings: Settings) -> str:
    """The model that is set, the provider's default, or its cheapest in the catalogue."""
    configured = Catalogue(aliases=settings.aliases).resolve(settings.model.strip())
    if configured.startswith(f"{provider.name}/"):
        return configured
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
