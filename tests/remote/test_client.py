from __future__ import annotations

import pytest

from ostler.remote.client import Address, address_of


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("localhost:3284", Address("http://localhost:3284")),
        ("[::1]:3284/", Address("http://[::1]:3284")),
        ("https://box.example.com/", Address("https://box.example.com")),
        ("http://box/ostler/s/ses_1", Address("http://box/ostler", "ses_1")),
        ("http://box/api/v1/sessions/ses_1/events", Address("http://box", "ses_1")),
        ("http://box/chat/embed", Address("http://box")),
        ("http://box/tools/chat/", Address("http://box/tools")),
        ("http://box/api/v1", Address("http://box")),
        ("http://127.0.0.1:8420/#token=a%2Bb", Address("http://127.0.0.1:8420", code="a+b")),
        ("http://box:3284/?code=c", Address("http://box:3284", code="c")),
        ("http://127.0.0.1:8420/s/ses_1#token=c", Address("http://127.0.0.1:8420", "ses_1", "c")),
    ],
)
def test_an_address_is_read_as_it_is_typed_or_copied(given: str, meant: Address) -> None:
    assert address_of(given) == meant
