"""What `kernels` asks its environment."""

import os
from pathlib import Path

# Triton reads the same variable when a kernel is decorated, so it must be set before the process
# starts and cannot change afterwards.
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"

# GRISTMILL_CPU_KERNELS=torch: compute with PyTorch on a CPU although C could be compiled.
COMPILED = os.environ.get("GRISTMILL_CPU_KERNELS") != "torch"

# Where compiled kernels are kept, as Triton keeps its own in ~/.triton.
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gristmill"
