"""What one server key protects: stored webhook secrets, cache salts and dashboard sessions."""

import base64
import hashlib
import hmac
from secrets import token_bytes
from uuid import UUID

from cryptography.fernet import Fernet, MultiFernet


def new_webhook_secret() -> str:
    """As Standard Webhooks writes one: 256 random bits."""
    return "whsec_" + base64.b64encode(token_bytes(32)).decode()


class Secrets:
    """Derives everything from one key, which every process of a deployment shares.

    What `other_key` has encrypted is read as well, while one key takes the other's place.
    """

    def __init__(self, key: str, other_key: str | None = None) -> None:
        self._fernet = MultiFernet([Fernet(each) for each in (key, other_key) if each is not None])
        self._key = key.encode()

    @staticmethod
    def generate_key() -> str:
        return Fernet.generate_key().decode()

    def encrypt(self, secret: str) -> bytes:
        return self._fernet.encrypt(secret.encode())

    def decrypt(self, token: bytes) -> str:
        return self._fernet.decrypt(token).decode()

    def renew(self, token: bytes) -> bytes:
        """The same secret, encrypted with the key.  Raises InvalidToken where neither reads it."""
        return self._fernet.rotate(token)

    def salt(self, tenant_id: UUID) -> str:
        """Names a tenant to the prefix cache.  Never the client's to choose: a guessed salt would
        let one tenant time another's prompts (CVE-2025-46570)."""
        return self._mac("cache-salt", tenant_id.hex)

    def sign(self, text: str) -> str:
        return self._mac("session", text)

    def _mac(self, purpose: str, text: str) -> str:
        # The length separates the domains: no purpose and text can pass for another pair.
        message = f"{len(purpose)}:{purpose}{text}".encode()
        return hmac.new(self._key, message, hashlib.sha256).hexdigest()
