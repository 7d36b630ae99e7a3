"""Who is signed in: sessions in memory, which end with the token, or after an idle hour."""

from __future__ import annotations

import hmac
import secrets
import threading
import time
from dataclasses import dataclass, field

_IDLE, _WHOLE = 3600.0, 12 * 3600.0  # seconds
_MOST = 10_000


@dataclass
class Session:
    """One browser. `form` is in each of its forms, where no other site can know it."""

    token: str = field(repr=False)
    form: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    begun: float = field(default_factory=time.monotonic)
    seen: float = field(default_factory=time.monotonic)

    def sent(self, form: str) -> bool:
        """Whether a form was sent from a page of this session."""
        return hmac.compare_digest(self.form.encode(), form.encode("utf-8", "replace"))


class Sessions:
    """Sessions by the value of a cookie, 256 random bits.

    Each holds its token, which is looked up again at every request: one that was revoked ends it.
    """

    def __init__(self) -> None:
        self._held: dict[str, Session] = {}
        self._lock = threading.Lock()

    def begin(self, token: str) -> str:
        """A new session; the value of its cookie."""
        cookie = secrets.token_urlsafe(32)
        with self._lock:
            self._held = {c: each for c, each in self._held.items() if _alive(each)}
            while len(self._held) >= _MOST:
                del self._held[next(iter(self._held))]
            self._held[cookie] = Session(token)
        return cookie

    def of(self, cookie: str) -> Session | None:
        with self._lock:
            found = self._held.get(cookie)
            if found is None or not _alive(found):
                return None
            found.seen = time.monotonic()
            return found

    def end(self, cookie: str) -> None:
        with self._lock:
            self._held.pop(cookie, None)


def _alive(session: Session) -> bool:
    now = time.monotonic()
    return now - session.seen < _IDLE and now - session.begun < _WHOLE
