"""The `gristmill` command: brings the system up on one machine and talks to it."""
