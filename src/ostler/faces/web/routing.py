"""Which operation answers: by path and method."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from ostler.faces.web.operations import Endpoint, Operation
from ostler.faces.web.problems import MethodNotAllowed, problem_of, problem_response
from ostler.faces.web.server import Server


class Methods:
    """The operations of one path, by their methods."""

    def __init__(self, endpoints: dict[str, Endpoint]) -> None:
        self._endpoints = endpoints
        also = {"OPTIONS", "HEAD"} if "GET" in endpoints else {"OPTIONS"}
        self._allowed = ", ".join(sorted(endpoints.keys() | also))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        method = scope["method"]
        if method == "HEAD" and "GET" in self._endpoints:  # without a body there is nothing to stream
            headers = [one for one in scope["headers"] if one[0] != b"accept"]
            scope = {**scope, "method": "GET", "headers": headers}
        elif method not in self._endpoints:
            await self._other(method)(scope, receive, send)
            return
        await self._endpoints[scope["method"]](scope, receive, send)

    def _other(self, method: str) -> Response:
        if method == "OPTIONS":
            return Response(status_code=204, headers={"allow": self._allowed})
        error = MethodNotAllowed(f"{method[:20]} is not possible here; possible are: {self._allowed}")
        answer = problem_response(problem_of(error))
        answer.headers["allow"] = self._allowed
        return answer


def routes_of(server: Server, operations: Iterable[Operation], prefix: str) -> list[Route]:
    """Paths without parameters come first: `sessions/search` is no session."""
    paths: dict[str, dict[str, Endpoint]] = {}
    for one in operations:
        paths.setdefault(prefix + one.path, {})[one.method] = Endpoint(server, one)
    ordered = sorted(paths.items(), key=lambda item: "{" in item[0])
    return [Route(path, Methods(endpoints)) for path, endpoints in ordered]
