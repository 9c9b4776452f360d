"""`up.json`: what the rest of the world needs to know of a running stack.  It holds secrets."""

import os
from collections.abc import Mapping
from pathlib import Path

from cli import private_file
from cli.stack import Stack

NAME = "up.json"
_WORKER = "worker-"


def write(path: Path, stack: Stack, pids: Mapping[str, int]) -> None:
    """Tell of a stack that is ready; again after each restart, for the pids."""
    storage = stack.servers.seaweedfs.settings
    private_file.write(
        path,
        {
            "api_url": stack.api_url,
            "api_key": stack.access.api_key,
            "webhook_secret": stack.access.webhook_secret,
            "dashboard_url": stack.dashboard_url,
            "metrics_urls": stack.metrics_urls,
            "database_url": stack.servers.postgres.url,
            "broker_url": stack.servers.valkey.url,
            "storage": {
                "endpoint": storage.endpoint,
                "bucket": storage.bucket,
                "access_key": storage.access_key,
                "secret_key": storage.secret_key.get_secret_value(),
            },
            "pids": _by_role(pids),
        },
    )


def _by_role(pids: Mapping[str, int]) -> dict[str, int | list[int]]:
    alone = {name: pid for name, pid in pids.items() if not name.startswith(_WORKER)}
    workers = [pid for name, pid in pids.items() if name.startswith(_WORKER)]
    return {"up": os.getpid(), **alone, "workers": workers}
