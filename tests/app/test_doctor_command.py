"""The output of `ostler doctor`: models, sources, broken files, and what to do."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from ostler.app.doctor import EXTRAS
from ostler.models.providers import PROVIDERS
from ostler.models.scripted import WAYS
from ostler.testkit.vendors import turn
from tests.support.command import KEY, Ostler
from tests.support.fixtures import Configure, Serve
from tests.support.paths import ROOT


def place(report: dict[str, Any], name: str) -> dict[str, Any]:
    (found,) = [one for one in report["places"] if one["name"] == name]
    return found


def test_without_a_model_every_checked_source_is_listed(ostler: Ostler, configure: Configure) -> None:
    ran = ostler("doctor")
    assert (ran.code, ran.err) == (3, "")
    for provider in PROVIDERS.values():
        if provider.key_variables or provider.is_local:
            assert f"  -  {provider.name} " in ran.out
        for variable in provider.key_variables[:1]:
            assert f"set {variable}, or run `ostler key set {provider.name}`" in ran.out
    for way in WAYS:
        assert way in ran.out
    (report,) = ostler("doctor", "--json").lines
    assert (report["can_answer"], report["answering"]["why"], report["ways"]) == (
        False,
        "nothing",
        list(WAYS),
    )
    assert {one["kind"] for one in report["findings"]} == {"key", "server", "gguf"}
    assert not ostler.store.exists()


def test_a_key_is_listed_by_its_source_and_never_printed(ostler: Ostler, configure: Configure) -> None:
    configure(f"[providers.mistral]\napi_key = '{KEY}'")
    ostler("key", "set", "openai", piped=KEY.encode())
    for arguments in (("doctor",), ("doctor", "--json")):
        ran = ostler(*arguments, ANTHROPIC_API_KEY=KEY, OSTLER_API_KEY=KEY)
        assert ran.code == 0
        assert "ANTHROPIC_API_KEY" in ran.out and "keys.json" in ran.out and "mistral.api_key" in ran.out
        assert KEY not in ran.out + ran.err and KEY[-4:] not in ran.out
    last = ostler("doctor", ANTHROPIC_API_KEY=KEY).out.splitlines()[-1]
    assert last == (
        f"anthropic/{PROVIDERS['anthropic'].default_model} answers: its key is in ANTHROPIC_API_KEY"
    )


def test_servers_are_listed_with_their_models(ostler: Ostler, serve: Serve, configure: Configure) -> None:
    vendor = serve(models=["qwen3:8b", "nomic-embed-text", "llama3"])
    configure(lmstudio=vendor.chat_url)
    (report,) = ostler("doctor", "--json").lines
    (found,) = [one for one in report["findings"] if one["kind"] == "server" and one["found"]]
    assert (found["name"], found["models"]) == ("lmstudio", ["qwen3:8b", "llama3"])
    assert report["answering"]["model"] == "lmstudio/qwen3:8b" and report["can_answer"]
    ran = ostler("doctor")
    assert ran.code == 0 and re.search(r"  \+  lmstudio  .*: 2 models +qwen3:8b, llama3\n", ran.out)
    assert not (ostler.home / "servers.json").exists()


def test_a_named_model_needs_its_key(ostler: Ostler, configure: Configure) -> None:
    assert ostler("doctor", OSTLER_MODEL="demo").code == 0
    keyless = ostler("doctor", OSTLER_MODEL="xai/x")
    assert keyless.code == 3 and "xai needs a key: set XAI_API_KEY" in keyless.out
    assert ostler("doctor", OSTLER_MODEL="xai/x", XAI_API_KEY=KEY).code == 0
    configure("model = 'xai/x'\nkey_command = 'touch was-run'")
    assert ostler("doctor").code == 0
    assert not (ostler.work / "was-run").exists()
    unknown = ostler("doctor", OSTLER_MODEL="nobody/x")
    assert unknown.code == 3 and "there is no model 'nobody/x'" in unknown.out


def test_doctor_reports_the_error_that_a_run_would_report(
    ostler: Ostler, serve: Serve, configure: Configure
) -> None:
    configure("model = 'jan/x'")
    absent = ostler("doctor")
    assert absent.code == 3 and "no model can answer: jan/x cannot answer at 127.0.0.1:" in absent.out
    assert "fallbacks" not in absent.out
    keyless = ostler("doctor", OSTLER_MODEL="azure/x", AZURE_OPENAI_ENDPOINT="https://x.example")
    assert keyless.code == 3 and "azure needs a key" in keyless.out
    assert ostler("-p", "--model", "azure/x", "hi", AZURE_OPENAI_ENDPOINT="https://x.example").code == 3
    configure("model = 'jan/x'\nfallback = ['groq/x', 'xai/x']", jan=serve(models=["x"]).chat_url)
    ran = ostler("doctor", XAI_API_KEY=KEY)
    assert ran.code == 0 and ran.out.endswith("jan/x answers: it is named\n")
    assert re.search(r"\n  -  groq/x +groq needs a key: .*\n  \+  xai/x +ready\n", ran.out)


def test_broken_files_are_part_of_the_report(ostler: Ostler, configure: Configure) -> None:
    configure(f"api_key = '{KEY}'\nmodel = 'openai/x'")
    (ostler.home / "config.toml").chmod(0o644)
    (report,) = ostler("doctor", "--json").lines
    assert (
        not place(report, "configuration")["sound"] and "chmod 600" in place(report, "configuration")["state"]
    )
    (ostler.home / "config.toml").chmod(0o600)
    (report,) = ostler("doctor", "--json").lines
    assert place(report, "configuration")["sound"]

    (ostler.home / "keys.json").write_text("{}")
    (ostler.home / "keys.json").chmod(0o644)
    ostler.store.write_text("this is no database, " * 100)
    (report,) = ostler("doctor", "--json").lines
    assert not place(report, "keys")["sound"] and "chmod 600" in place(report, "keys")["state"]
    assert not place(report, "store")["sound"] and "ostler.db" in place(report, "store")["state"]

    (ostler.home / "config.toml").write_text("model = ]")
    ran = ostler("doctor")
    assert (ran.code, ran.err) == (3, "") and "config.toml is not valid TOML" in ran.out


def test_an_invalid_settings_file_has_its_row(ostler: Ostler, configure: Configure) -> None:
    (ostler.work / "ostler.toml").write_text("[models.'a/b']\ntools = 'yes'")
    ran = ostler("doctor", "--json")
    (report,) = ran.lines
    assert ran.code == 3 and place(report, "configuration")["sound"]
    assert place(report, "project")["state"] == "models.\"a/b\".tools must be true or false, not 'yes'"
    ostler.configure("[providers.acme]\nbase_url = 5")
    (report,) = ostler("doctor", "--json").lines
    broken = place(report, "configuration")
    assert (broken["sound"], broken["state"]) == (False, "providers.acme.base_url must be a text")


def test_a_home_that_is_not_a_folder_is_reported(ostler: Ostler) -> None:
    ostler.home.write_text("a file where a folder should be")
    (report,) = ostler("doctor", "--json").lines
    assert not place(report, "state")["sound"]


def test_the_store_is_opened_and_its_size_reported(
    ostler: Ostler, serve: Serve, configure: Configure
) -> None:
    vendor = serve(turn("ok"))
    ostler("-p", "--model", "openai/x", "--base-url", vendor.chat_url, "hello")
    (report,) = ostler("doctor", "--json").lines
    assert place(report, "store")["sound"] and place(report, "store")["state"].startswith("ok, 0.")


def test_the_trust_of_the_folder_is_reported(ostler: Ostler, configure: Configure) -> None:
    (report,) = ostler("doctor", "--json").lines
    assert "project" not in [one["name"] for one in report["places"]]
    (ostler.work / "ostler.toml").write_text("base_url = 'http://127.0.0.1:1/v1'")
    (report,) = ostler("doctor", "--json").lines
    assert place(report, "project")["state"] == "not trusted: base_url ignored; see `ostler trust`"
    ostler("trust")
    (report,) = ostler("doctor", "--json").lines
    assert place(report, "project")["state"] == "trusted with base_url"


def test_extras_and_programs_are_listed(ostler: Ostler, configure: Configure) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(project["optional-dependencies"]) - {"all"} <= set(EXTRAS)
    (report,) = ostler("doctor", "--json").lines
    assert {one["name"] for one in report["extras"]} == set(EXTRAS)
    assert {"bash", "git", "rg"} <= {one["name"] for one in report["programs"]}
    (report,) = ostler("doctor", "--json", PATH="").lines
    assert not any(one["found"] for one in report["programs"] if one["name"] == "git")
