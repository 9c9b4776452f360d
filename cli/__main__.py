"""`python -m cli` is `gristmill`."""

from cli.main import main

main()
