"""A web server on loopback that answers as a test says, and keeps what it was asked."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web
from aiohttp.test_utils import TestServer

Reply = tuple[int, Mapping[str, str], str]


@dataclass
class Web:
    """Gives its replies in order; the last one is given again and again."""

    replies: list[Reply]
    url: str = ""
    reply_by: Callable[[web.Request], Reply] | None = None
    """Chooses a reply by the request, in place of the list."""
    handle_by: Callable[[web.Request], Awaitable[web.Response]] | None = None
    """Answers in place of everything else."""
    asked: list[web.Request] = field(default_factory=list)
    bodies: list[str] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.Response:
        self.asked.append(request)
        self.bodies.append(await request.text())
        if self.handle_by is not None:
            return await self.handle_by(request)
        if self.reply_by is not None:
            status, headers, body = self.reply_by(request)
        else:
            status, headers, body = self.replies.pop(0) if self.replies[1:] else self.replies[0]
        return web.Response(status=status, headers=headers, text=body)


@asynccontextmanager
async def serving(*replies: Reply) -> AsyncIterator[Web]:
    found = Web([*replies])
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", found.handle)
    server = TestServer(app)
    await server.start_server()
    found.url = str(server.make_url("/things"))
    try:
        yield found
    finally:
        await server.close()


def ok(body: str, **headers: str) -> Reply:
    return 200, headers, body
