"""What the browser carries: a signed sign-in, and the tokens that prove a form came from here.

Nothing is stored.  What ends a sign-in is its own end, or its key being revoked.
"""

import hmac
import secrets

from jobs.operators import SignIn
from jobs.secrets import Secrets

SESSION_COOKIE = "gristmill_session"
NONCE_COOKIE = "gristmill_sign_in"  # before there is a session: signing in needs a token too


def new_nonce() -> str:
    return secrets.token_hex(16)


class Signer:
    def __init__(self, key: Secrets) -> None:
        self._key = key

    def cookie(self, sign_in: SignIn) -> str:
        content = f"{sign_in.ends_at}.{sign_in.key_id}"
        return f"{self._sign('cookie', content)}.{content}"

    def read(self, cookie: str) -> SignIn | None:
        """The sign-in that we signed; None for anything else."""
        signature, _, content = cookie.partition(".")
        if not self._signed(signature, "cookie", content):
            return None
        ends_at, _, key_id = content.partition(".")
        return SignIn(key_id, int(ends_at))

    def form_token(self, cookie: str) -> str:
        """The token of every form shown to the holder of this session or nonce."""
        return self._sign("form", cookie)

    def accepts(self, token: str, *, cookie: str) -> bool:
        return bool(cookie) and self._signed(token, "form", cookie)

    def _sign(self, purpose: str, content: str) -> str:
        return self._key.sign(f"dashboard {purpose} {content}")

    def _signed(self, signature: str, purpose: str, content: str) -> bool:
        expected = self._sign(purpose, content)
        return hmac.compare_digest(signature.encode(), expected.encode())
