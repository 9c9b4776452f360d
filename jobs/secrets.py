"""What one server key protects: stored webhook secrets, cache salts and dashboard sessions."""

import base64
import hashlib
import hmac
from secrets import token_bytes
from uuid import UUID

from cryptography.fernet import Fernet


def new_webhook_secret() -> str:
    """As Standard Webhooks writes one: 256 random bits."""
    return "whsec_" + base64.b64encode(token_bytes(32)).decode()


class Secrets:
    """Derives everything from one key, which every process of a deployment shares."""

    def __init__(self, key: str) -> None:
        self._fernet = Fernet(key)
        self._key = key.encode()

    @staticmethod
    def generate_key() -> str:
        return Fernet.generate_key().decode()

    def encrypt(self, secret: str) -> bytes:
        return self._fernet.encrypt(secret.encode())

    def decrypt(self, token: bytes) -> str:
        return self._fernet.decrypt(token).decode()

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
