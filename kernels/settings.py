"""The one thing about its environment that `kernels` asks."""

import os

# Triton reads the same variable when a kernel is decorated, so it must be set before the process
# starts and cannot change afterwards.
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
