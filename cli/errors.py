"""Everything that makes a command stop on purpose.

CommandFailed
├── ServerUnavailable     a server or program did not come up, or would not stay up
├── PortInUse             somebody else listens where we were told to
├── MissingPart           something that has to be installed is not
└── AlreadyRunning        another `up` holds the data directory

Each message is one sentence that says what failed and what to do.
"""


class CommandFailed(Exception):
    """The command ends with exit code 1 and this message."""


class ServerUnavailable(CommandFailed):
    """`log_tail` is the end of the program's own log: usually the reason."""

    def __init__(self, message: str, *, log_tail: str = "") -> None:
        super().__init__(f"{message}; its log ends with: {log_tail}" if log_tail else message)


class PortInUse(CommandFailed):
    def __init__(self, port: int) -> None:
        super().__init__(f"port {port} of 127.0.0.1 is in use; choose another with --port")


class MissingPart(CommandFailed):
    """A wheel, a system user or a folder that this machine lacks."""


class AlreadyRunning(CommandFailed):
    """Two stacks in one data directory would fight over the same files."""
