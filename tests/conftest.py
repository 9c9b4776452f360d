"""What every test may ask for, one file a service.  Nothing starts until a test asks."""

import os
import signal

# Before anything imports torch.  Its threads would otherwise spin while they wait for each other,
# which on a machine that also runs the servers makes a tiny model fifty times slower.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

# A shell that starts us in the background has us ignore Ctrl-C, and what tests start inherits that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

pytest_plugins = [
    "tests.fixtures.folders",
    "tests.fixtures.servers",
    "tests.fixtures.database",
    "tests.fixtures.storage",
    "tests.fixtures.broker",
    "tests.fixtures.stack",
    "tests.fixtures.tiny_model",
    "tests.fixtures.tiny_stack",
    "tests.fixtures.work",
    "tests.fixtures.pipeline",
    "tests.fixtures.environment",
]
