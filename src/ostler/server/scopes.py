"""What each scope of a token allows: the one table for routes and for requests to a session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from ostler.schema import requests
from ostler.schema.requests import AnyRequest
from ostler.server.problems import Forbidden
from ostler.server.tokens import Principal, TokenScope

Access = Literal["none", "observe", "prompt", "approve", "all", "admin"]
"""What a route or a request needs; `none`: not even a token."""

SCOPES: Mapping[TokenScope, frozenset[Access]] = {
    "observe": frozenset({"observe"}),
    "prompt": frozenset({"observe", "prompt"}),
    "approve": frozenset({"observe", "approve"}),
    "all": frozenset({"observe", "prompt", "approve", "all"}),
    "admin": frozenset({"observe", "prompt", "approve", "all", "admin"}),
}

REQUESTS: Mapping[type[requests.Request], Access] = {
    requests.Prompt: "prompt",
    requests.Continue: "prompt",
    requests.Steer: "prompt",
    requests.Cancel: "prompt",
    requests.Pause: "prompt",
    requests.Resume: "prompt",
    requests.Fork: "prompt",
    requests.Navigate: "prompt",
    requests.SetModel: "prompt",
    requests.Compact: "prompt",
    requests.UndoCompaction: "prompt",
    requests.Rename: "prompt",
    requests.Label: "prompt",
    requests.CollapseBranch: "prompt",
    requests.ReleasePrompts: "prompt",
    requests.TakeBack: "prompt",
    requests.Answer: "approve",
    # The rest could stand in for an answer: an outcome, keys for a dialog, an extension's command.
    requests.RevokePermission: "all",
    requests.FinishCall: "all",
    requests.RunCommand: "all",
    requests.Keys: "all",
    requests.Resize: "all",
}

ANY_REQUEST = tuple(dict.fromkeys(REQUESTS.values()))
"""A request to a session needs one of these, depending on its type."""


def require_scope(principal: Principal, *accesses: Access) -> None:
    """Raises `Forbidden` unless the principal has one of these."""
    if not any(one in SCOPES[principal.scope] for one in accesses):
        needed = " or ".join(f"`{one}`" for one in accesses)
        raise Forbidden(f"a token with the scope `{principal.scope}` may not do this: it needs {needed}")


def request_access(request: AnyRequest) -> Access:
    """What a request needs; one of an unknown type needs everything."""
    kinds = (kind for kind in type(request).__mro__ if kind in REQUESTS)
    return next((REQUESTS[kind] for kind in kinds), "admin")
