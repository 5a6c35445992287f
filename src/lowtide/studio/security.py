"""Who may ask: the token, the names in Host and Origin, sizes of bodies, and headers that keep a
page to itself.

Pure ASGI, before anything of a request is parsed.
"""

import hashlib
import hmac
import ipaddress
import json
import os
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, urlsplit

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lowtide.studio.limits import Limits
from lowtide.studio.problems import fault_of, problem

LOOPBACK = ("localhost", "127.0.0.1", "::1")
_OPEN = ("/health",)
_SAFE = ("GET", "HEAD", "OPTIONS")
_PAGE = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src"
    " 'self'; connect-src 'self'; frame-src 'self'; form-action 'none'; base-uri 'none';"
    " frame-ancestors 'none'"
)
# Typing is private: this page has what it needs when it is loaded, and may not ask for anything
# afterwards.
_WRITING = _PAGE.replace("connect-src 'self'", "connect-src 'none'").replace("data: blob:", "data:")
# A report quotes names of a stranger's file: it is shown without scripts, and as nobody's page.
SANDBOX = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'"
)
_HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "cache-control": "no-store",
}


@dataclass(frozen=True)
class Access:
    """Who may ask.

    Attributes:
        token: what a request must carry.
        cookie: the name of the cookie that carries it; cookies do not know ports, so every studio
            has its own.
        hosts: names under which the service may be called, beside those of this machine.
        addresses: whether it may be called by any numeric address, where it listens to other
            machines.
    """

    token: str
    cookie: str = "lowtide"
    hosts: tuple[str, ...] = ()
    addresses: bool = False

    def knows_host(self, host: str) -> bool:
        """Whether a request was meant for this service: a name that only an attacker's DNS points
        here is not ours.
        """
        name = host_name(host)
        if name is None:
            return False
        return name in LOOPBACK or name in self.hosts or (self.addresses and _is_address(name))

    def accepts(self, given: str | None) -> bool:
        """Whether this is the token; compared in constant time."""
        return given is not None and hmac.compare_digest(_digest(given), _digest(self.token))


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode(errors="replace")).digest()


def host_name(host: str) -> str | None:
    """The name in a Host header, without its port; `None` where it is not one."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower().rstrip(".") or None
    except ValueError:
        return None


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class _TooLargeError(HTTPException):
    """A body that is longer than it may be; of a kind that who reads bodies passes on."""

    def __init__(self) -> None:
        super().__init__(413)


class Guard:
    """Lets through only requests that carry the token, to our own name, from our own page, and of
    bounded size.
    """

    def __init__(self, app: ASGIApp, access: Access, limits: Limits) -> None:
        self._app = app
        self._access = access
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # no web sockets here
            return
        headers = _headers(scope)
        most = (
            self._limits.upload + self._limits.body
            if scope["path"] == "/api/files"
            else self._limits.body
        )
        refused = self._refusal(scope, headers, most)
        if refused is not None:
            await _answer(send, *refused)
            return
        started = False

        async def counted() -> Message:
            nonlocal most
            message = await receive()
            most -= len(message.get("body", b""))
            if most < 0:
                raise _TooLargeError
            return message

        async def protected(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                message = {**message, "headers": self._answered(scope, message["headers"])}
            await send(message)

        try:
            await self._app(scope, counted, protected)
        except Exception as error:
            # Nobody above may log it: its words may quote data.
            if os.environ.get("LOWTIDE_DEBUG"):
                raise
            if not started:
                await _answer(send, 500, fault_of(error))

    def _refusal(self, scope: Scope, headers: dict[str, str], most: int) -> tuple[int, str] | None:
        if not self._access.knows_host(headers.get("host", "")):
            return (
                403,
                "this service is not called that; use the address that `lowtide studio` printed",
            )
        if scope["path"] in _OPEN:
            return None
        if _comes_from_elsewhere(headers):
            return 403, "requests from pages of other sites are refused"
        if not self._carries_token(scope, headers):
            return (
                401,
                (
                    "open the address that `lowtide studio` printed, or send `Authorization: Bearer"
                    " TOKEN`"
                ),
            )
        says_whence = (
            "origin" in headers or "sec-fetch-site" in headers or "authorization" in headers
        )
        if scope["method"] not in _SAFE and not says_whence:
            return (
                403,
                (
                    "a request that changes something must say where it comes from, or carry a"
                    " Bearer token"
                ),
            )
        return _too_long(headers, most)

    def _carries_token(self, scope: Scope, headers: dict[str, str]) -> bool:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme:
            return scheme.lower() == "bearer" and self._access.accepts(given.strip())
        if self._from_address(scope):
            return True
        return self._access.accepts(_cookie(headers.get("cookie", ""), self._access.cookie))

    def _from_address(self, scope: Scope) -> bool:
        """Whether the page itself is opened by the address with the token; nothing else takes it
        from there.
        """
        if scope["path"] not in ("/", "/write") or scope["method"] != "GET":
            return False
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
        return len(given) == 1 and self._access.accepts(given[0])

    def _answered(
        self, scope: Scope, headers: list[tuple[bytes, bytes]]
    ) -> list[tuple[bytes, bytes]]:
        """The headers of an answer, with those that protect it; what a route says itself stays."""
        said = {name.lower() for name, _ in headers}
        policy = _WRITING if scope["path"].startswith("/write") else _PAGE
        ours = {**_HEADERS, "content-security-policy": policy}
        added = [
            (name.encode(), value.encode())
            for name, value in ours.items()
            if name.encode() not in said
        ]
        if self._from_address(scope):
            cookie = (
                f"{self._access.cookie}={self._access.token}; HttpOnly; SameSite=Strict; Path=/"
            )
            added.append((b"set-cookie", cookie.encode()))
        return [*headers, *added]


def _too_long(headers: dict[str, str], most: int) -> tuple[int, str] | None:
    """By what a request says of itself; what it then sends is counted."""
    length = headers.get("content-length", "0")
    if length.isdecimal() and int(length) > most:
        return 413, f"a body of {int(length):,} bytes is too large; at most {most:,} are taken in"
    return None


def _headers(scope: Scope) -> dict[str, str]:
    """By name; of a name that comes twice, such as Host, both, so that it fits nothing."""
    found: dict[str, str] = {}
    for name, value in scope["headers"]:
        key = name.decode("latin-1").lower()
        separator = "; " if key == "cookie" else ", "
        found[key] = (
            f"{found[key]}{separator}{value.decode('latin-1')}"
            if key in found
            else value.decode("latin-1")
        )
    return found


def _comes_from_elsewhere(headers: dict[str, str]) -> bool:
    """Whether a page of another site asks. A person who follows a link to the page itself is
    welcome.
    """
    origin = headers.get("origin")
    if origin is not None:
        return (
            urlsplit(origin).netloc.lower() != headers.get("host", "").lower()
            or not urlsplit(origin).netloc
        )
    site = headers.get("sec-fetch-site", "none")
    mode = headers.get("sec-fetch-mode")
    return site not in ("none", "same-origin") and mode != "navigate"


def _cookie(header: str, name: str) -> str | None:
    try:
        found = SimpleCookie(header).get(name)
    except CookieError:
        return None
    return None if found is None else found.value


async def _answer(send: Send, status: int, detail: str) -> None:
    body = json.dumps(problem(status, detail)).encode()
    headers: list[Any] = [
        (b"content-type", b"application/problem+json"),
        (b"content-length", str(len(body)).encode()),
    ]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    headers += [(name.encode(), value.encode()) for name, value in _HEADERS.items()]
    headers.append((b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
