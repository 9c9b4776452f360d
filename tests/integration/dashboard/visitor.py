"""What a browser does, without its screen."""

import re
from typing import Any

from fastapi.testclient import TestClient

_TOKEN = re.compile(r'name="token" value="([0-9a-f]+)"')


class Visitor:
    def __init__(self, client: TestClient) -> None:
        self.client = client

    def sign_in(self, key: str) -> Any:
        """Load the sign-in and send its form."""
        token = self.token_of("/dashboard/login")
        return self.client.post("/dashboard/login", data={"token": token, "key": key})

    def token_of(self, page: str) -> str:
        found = _TOKEN.search(self.client.get(page).text)
        assert found, f"{page} shows no form"
        return found[1]
