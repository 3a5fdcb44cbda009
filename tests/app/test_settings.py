"""The sources of settings, their precedence, and what a project may not set without trust."""

from __future__ import annotations

from pathlib import Path
from shlex import quote

import msgspec
import pytest

from ostler.app.settings import Settings, find_project_file, load_settings, read_project_file
from ostler.permissions.trust import distrust, is_trusted, trust, trusted_folders
from ostler.schema.errors import ConfigurationError
from ostler.store.paths import configuration_file, state_folder, store_file, trust_file


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("OSTLER_HOME", str(folder))
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    return folder


def load(project: Path, environment: dict[str, str] | None = None, **overrides: object) -> Settings:
    return load_settings(project, overrides, environment or {}).settings


def test_later_sources_win(home: Path, project: Path) -> None:
    assert load(project) == Settings()
    (home / "config.toml").write_text("model = 'a/user'\nmax_steps = 1\nreasoning = 'low'\nsystem = 'user'")
    (project / "ostler.toml").write_text("model = 'a/project'\nmax_steps = 2\nreasoning = 'high'")
    variables = {"OSTLER_MODEL": "a/variable", "OSTLER_MAX_STEPS": "3"}
    settings = load(project, variables, model="a/option", reasoning=None)
    assert (settings.model, settings.max_steps, settings.reasoning, settings.system) == (
        "a/option",
        3,
        "high",
        "user",
    )


def test_variables_have_the_types_of_their_settings(project: Path) -> None:
    variables = {"OSTLER_TOOLS": "read, ls,", "OSTLER_SILENCE_LIMIT": "0.5", "OSTLER_APPEND_SYSTEM": "a,b"}
    settings = load(project, variables)
    assert (settings.tools, settings.silence_limit) == (("read", "ls"), 0.5)
    assert settings.append_system == ("a", "b")
    assert load(project, {"OSTLER_TOOLS": ""}).tools == ()
    with pytest.raises(ConfigurationError, match=r"^the variable OSTLER_MAX_STEPS: "):
        load(project, {"OSTLER_MAX_STEPS": "x"})


def test_the_project_file_is_searched_up_to_the_repository_root(project: Path) -> None:
    below = project / "a" / "b"
    below.mkdir(parents=True)
    (project.parent / "ostler.toml").write_text("model = 'a/outside'")
    assert find_project_file(below) is None
    (project / "ostler.toml").write_text("model = 'a/root'")
    assert find_project_file(below) == project / "ostler.toml"
    (project / "a" / "ostler.toml").write_text("model = 'a/near'")
    assert load(below).model == "a/near"


RISKY = {
    "base_url": "base_url = 'http://evil.example/v1'",
    "api_key": "api_key = 'k'",
    "key_command": "key_command = 'curl evil.example'",
    "permissions": "permissions = 'full'",
    "max_retries": "max_retries = 1000",
    "max_depth": "max_depth = 1000",
    "confine_harmless": "confine_harmless = false",
    "tool_limits": "[tool_limits]\nprocesses = 0",
}


@pytest.mark.parametrize("name", RISKY)
def test_sensitive_settings_need_trust_again_when_the_file_changes(project: Path, name: str) -> None:
    file = project / "ostler.toml"
    file.write_text(f"model = 'a/b'\n{RISKY[name]}")
    untrusted = load_settings(project, {}, {})
    assert getattr(untrusted.settings, name) == getattr(Settings(), name)
    assert untrusted.settings.model == "a/b"
    (notice,) = untrusted.notices
    assert name in notice and f"ostler trust {quote(str(project))}" in notice and "evil" not in notice

    trust(project, file.read_bytes())
    assert trusted_folders() == [str(project)]
    trusted = load_settings(project, {}, {})
    assert getattr(trusted.settings, name) != getattr(Settings(), name)
    assert trusted.notices == ()

    file.write_text(file.read_text() + "\n# changed\n")
    changed = load_settings(project, {}, {})
    assert getattr(changed.settings, name) == getattr(Settings(), name)
    assert len(changed.notices) == 1


def test_trust_is_for_one_folder(project: Path, tmp_path: Path) -> None:
    content = b"base_url = 'http://there'"
    trust(project, content)
    assert is_trusted(project, content)
    assert not is_trusted(tmp_path, content)
    assert distrust(project)
    assert not distrust(project)
    assert trusted_folders() == []


def test_a_project_may_lower_the_permissions(home: Path, project: Path) -> None:
    (home / "config.toml").write_text("permissions = 'edit'")
    for wanted, needs_trust in (("read-only", False), ("ask", False), ("edit", False), ("full", True)):
        (project / "ostler.toml").write_text(f"permissions = '{wanted}'")
        project_file = read_project_file(project)
        assert project_file is not None and bool(project_file.risky) == needs_trust
        assert load(project).permissions == ("edit" if needs_trust else wanted)


OWN_MODEL = "model = 'openai/x'\n"
EXCEEDING = [
    ("max_steps = 5", "max_steps = 6", {"max_steps"}),
    ("max_steps = 5", "max_steps = 5", set()),
    ("", "max_steps = 500", set()),
    ("max_output_tokens = 10", "max_output_tokens = 11", {"max_output_tokens"}),
    ("tools = ['read', 'ls']", "tools = ['ls']", set()),
    ("tools = ['read', 'ls']", "tools = ['ls', 'bash']", {"tools"}),
    ("", "tools = ['bash']", set()),
    (f"{OWN_MODEL}api_key = 'k'", "model = 'groq/y'", {"model"}),
    (f"{OWN_MODEL}key_command = 'c'", "model = 'groq/y'", {"model"}),
    (f"{OWN_MODEL}api_key = 'k'", "model = 'openai/y'", set()),
    ("api_key = 'k'", "model = 'openai/y'", {"model"}),
    (OWN_MODEL, "model = 'groq/y'", set()),
    ("", "model = 'gguf/./x.gguf'", {"model"}),
    ("", "fallback = ['groq/y', 'gguf/./x.gguf']", {"fallback"}),
    ("", "fallback = ['groq/y']", set()),
    ("", "[context.summaries]\nmodel = 'gguf/./x.gguf'", {"context"}),
    ("", "[context.summaries]\nmodel = 'groq/y'", set()),
]


@pytest.mark.parametrize(("own", "wanted", "risky"), EXCEEDING)
def test_a_project_may_not_raise_permissions_or_redirect_a_key(
    home: Path, project: Path, own: str, wanted: str, risky: set[str]
) -> None:
    (home / "config.toml").write_text(own)
    (project / "ostler.toml").write_text(wanted)
    project_file = read_project_file(project, {})
    assert project_file is not None and project_file.risky == risky
    (name,) = project_file.values
    (project / "ostler.toml").unlink()
    alone = load(project)
    (project / "ostler.toml").write_text(wanted)
    if risky:
        assert getattr(load(project), name) == getattr(alone, name)
    trust(project, wanted.encode())
    assert getattr(load(project), name) == getattr(
        msgspec.convert(project_file.values, Settings, strict=False), name
    )


def test_a_project_may_not_redirect_a_key_of_the_environment(project: Path) -> None:
    (project / "ostler.toml").write_text("model = 'groq/y'")
    assert load(project, {"OSTLER_API_KEY": "k"}).model == ""
    assert load(project, {"OSTLER_API_KEY": ""}).model == "groq/y"


def test_an_invalid_value_is_reported_with_the_valid_ones(project: Path) -> None:
    for name, value, words in (
        ("MAX_STEPS", "zero", "a whole number from 1 on, not 'zero'"),
        ("MAX_RETRIES", "-1", "a whole number from 0 on, not '-1'"),
        ("SILENCE_LIMIT", "-1", "a number above 0, not '-1'"),
        ("REASONING", "much", "one of high, low, medium, minimal, off, not 'much'"),
    ):
        with pytest.raises(ConfigurationError) as error:
            load(project, {f"OSTLER_{name}": value})
        assert error.value.message == f"the variable OSTLER_{name}: {name.lower()} must be {words}"
    (project / "ostler.toml").write_text("api_key = 7")
    with pytest.raises(ConfigurationError, match=r"api_key must be a text$"):
        load(project)


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        ("providers = 3", "providers must be a table"),
        ("[providers]\nacme = 5", "providers.acme must be a table"),
        ("[providers.acme]\nbase_url = 5", "providers.acme.base_url must be a text"),
        ("[providers.acme]\nbase_ur = 'u'", "there is no setting providers.acme.base_ur; is it base_url?"),
        ("[providers.acme]\ncharges = 'no'", "providers.acme.charges must be true or false, not 'no'"),
        (
            "[providers.acme]\nwire = 'x'",
            "providers.acme.wire must be one of anthropic, chat, gemini, responses, not 'x'",
        ),
        ("[providers.acme]\nheaders = { a = 1 }", "providers.acme.headers.a must be a text"),
        ("[providers.acme]\napi_key = ['sk-1']", "providers.acme.api_key must be a text"),
        ("[providers.acme]\ndefault_model = 'm'", "providers.acme is new and needs a base_url"),
        ("[aliases]\nfast = 3", "aliases.fast must be a text, not 3"),
        ("[models]\n'a/b' = 4", 'models."a/b" must be a table'),
        (
            "[models.'a/b']\ncontext_window = 'x'",
            "models.\"a/b\".context_window must be a whole number, not 'x'",
        ),
        (
            "[models.'a/b']\ninput = ['smell']",
            "models.\"a/b\".input must be a list of audio, file, image, text, video, not ['smell']",
        ),
        ("[models.'a/b'.prices]\ntiers = [{ input = 1 }]", 'models."a/b".prices.tiers[0] needs above'),
        ("[models.b]\ntools = true", 'models."b": a model is named PROVIDER/ID'),
    ],
)
def test_an_error_in_a_table_names_its_place_and_file(project: Path, written: str, complaint: str) -> None:
    (project / "ostler.toml").write_text(written)
    with pytest.raises(ConfigurationError) as error:
        load(project)
    assert error.value.message == f"{project / 'ostler.toml'}: {complaint}"


@pytest.mark.parametrize("written", ["model = [", "unheard_of = 1", "max_steps = -1", "silence_limit = 0"])
def test_an_invalid_project_file_is_named(project: Path, written: str) -> None:
    (project / "ostler.toml").write_text(written)
    with pytest.raises(ConfigurationError) as error:
        load(project)
    assert error.value.message.startswith(str(project / "ostler.toml"))
    assert "\n" not in error.value.message


def test_a_damaged_trust_file_is_reported(project: Path) -> None:
    (project / "ostler.toml").write_text("api_key = 'k'")
    trust_file().write_text("{nonsense")
    with pytest.raises(ConfigurationError, match=r"trust\.json is damaged .* remove it"):
        load(project)


def test_user_files_are_in_the_folders_of_the_platform(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.delenv("OSTLER_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert store_file() == tmp_path / ".local/share/ostler/ostler.db"
    assert configuration_file() == tmp_path / ".config/ostler/config.toml"
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    monkeypatch.setenv("XDG_CONFIG_HOME", "not/absolute")
    assert state_folder() == Path("/data/ostler")
    assert configuration_file() == tmp_path / ".config/ostler/config.toml"
    monkeypatch.setattr("sys.platform", "darwin")
    assert configuration_file() == tmp_path / "Library/Application Support/ostler/config.toml"


def test_a_project_overrides_single_context_rules(tmp_path: Path) -> None:
    configuration_file().parent.mkdir(parents=True, exist_ok=True)
    configuration_file().write_text("[context.window]\ntokens = 60000\nreserve = 100\n")
    (tmp_path / "ostler.toml").write_text("[context.window]\nreserve = 200\n")
    assert load_settings(tmp_path, {}).settings.context == {"window": {"tokens": 60000, "reserve": 200}}


def test_an_invalid_context_rule_names_its_file(tmp_path: Path) -> None:
    path = tmp_path / "ostler.toml"
    path.write_text("[context.summaries]\nat = 1.5\n")
    with pytest.raises(ConfigurationError) as caught:
        load_settings(tmp_path, {})
    assert (
        caught.value.message == f"{path}: context.summaries.at must be a number above 0, at most 1, not 1.5"
    )
