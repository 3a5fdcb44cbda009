"""The sources of `ostler ext install`."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.extensions.install.sources import package_name, parse_source
from ostler.schema.errors import UsageError

HERE = Path("/")

GIT = [
    ("github.com/ada/tidy", "https://github.com/ada/tidy", "github.com/ada/tidy", ""),
    ("git:github.com/ada/tidy", "https://github.com/ada/tidy", "github.com/ada/tidy", ""),
    ("gitlab.com/a/b/tidy.git@v1", "https://gitlab.com/a/b/tidy.git", "gitlab.com/a/b/tidy", "v1"),
    ("https://GitHub.com/ada/tidy.git", "https://GitHub.com/ada/tidy.git", "github.com/ada/tidy", ""),
    ("https://host.org:8443/tidy@main", "https://host.org:8443/tidy", "host.org:8443/tidy", "main"),
    ("ssh://git@github.com/ada/tidy", "ssh://git@github.com/ada/tidy", "github.com/ada/tidy", ""),
    ("ssh://git@github.com/ada/tidy@v1.2", "ssh://git@github.com/ada/tidy", "github.com/ada/tidy", "v1.2"),
    ("git@github.com:ada/tidy.git", "git@github.com:ada/tidy.git", "github.com/ada/tidy", ""),
    ("git@github.com:ada/tidy.git@0a1b2c", "git@github.com:ada/tidy.git", "github.com/ada/tidy", "0a1b2c"),
    ("git:git@github.com:ada/tidy", "git@github.com:ada/tidy", "github.com/ada/tidy", ""),
    ("file:///srv/tidy.git@v1", "file:///srv/tidy.git", "/srv/tidy", "v1"),
    ("git:/srv/a folder/tidy@v1", "file:///srv/a%20folder/tidy", "/srv/a folder/tidy", "v1"),
    ("file:///srv/a%20folder/tidy", "file:///srv/a%20folder/tidy", "/srv/a folder/tidy", ""),
    ("git:./srv/tidy", "file:///srv/tidy", "/srv/tidy", ""),
]


@pytest.mark.parametrize(("text", "address", "identity", "ref"), GIT)
def test_every_spelling_of_a_git_address_is_understood(
    text: str, address: str, identity: str, ref: str
) -> None:
    source = parse_source(text, HERE)
    assert (source.kind, source.address, source.identity, source.ref, source.name) == (
        "git",
        address,
        identity,
        ref,
        "tidy",
    )


@pytest.mark.parametrize(
    ("text", "address", "identity", "ref"),
    [
        ("tidy", "tidy", "tidy", ""),
        ("Ostler_Tidy.x==1.2rc1", "Ostler_Tidy.x", "ostler-tidy-x", "1.2rc1"),
    ],
)
def test_a_bare_word_is_a_name_on_pypi(text: str, address: str, identity: str, ref: str) -> None:
    source = parse_source(text, HERE)
    assert (source.kind, source.address, source.identity, source.ref) == ("pypi", address, identity, ref)


def test_a_source_that_starts_like_a_path_or_ends_in_py_is_a_path(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "gate.py").touch()
    for text, name in (("./a", "a"), ("a/b", "b"), ("a/gate.py", "gate"), (str(tmp_path / "a"), "a")):
        source = parse_source(text, tmp_path)
        assert (source.kind, source.name) == ("path", name)
        assert Path(source.address).exists()
    with pytest.raises(UsageError, match=r"to clone it at v1, use git:\./a@v1"):
        parse_source("./a@v1", tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-",
        "--upload-pack=touch x",
        "git:",
        "git:--upload-pack=x/y",
        "git:-oProxyCommand=x/y",
        "ssh://-oProxyCommand=x/y",
        "ssh://-u@host/y",
        "https://host",
        "https:///path",
        "https://host/x@-v1",
        "https://host/x@a..b",
        "https://host/x@",
        "https://host/../..",
        "https://host/x?y",
        "https://[::1/x",
        "http://host/x",
        "git://host/x",
        "ext::sh -c touch% /x",
        "ext://host/x",
        "file://host/x",
        "tidy>=1",
        "tidy[x]",
        "./nothing/there",
        "a\nb",
    ],
)
def test_an_invalid_source_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_source(text, HERE)


@pytest.mark.parametrize(
    "text",
    [
        "https://ada:s3cret@host/x",
        "https://s3cret@host/x",
        "ssh://ada:s3cret@host/x",
        "ada:s3cret@host:x",
        "ada:s3cret@host",
        "https://host/x?token=s3cret",
    ],
)
def test_a_password_in_an_address_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_source(text, HERE)
    assert "s3cret" not in refused.value.message


@given(st.text(alphabet="ab-./:@~=%\\ \n", max_size=30) | st.text(max_size=20))
def test_a_parsed_source_is_never_an_option_of_git(text: str) -> None:
    try:
        source = parse_source(text, HERE)
        name = package_name(source.name)
    except UsageError:
        return
    assert not source.address.startswith("-") and not source.ref.startswith("-")
    assert "/" not in name and name[0] not in "-."
