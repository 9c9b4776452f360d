"""Where `gristmill` and `python -m cli` begin.

The imports behind a command take half a second.  A Ctrl-C meanwhile ends the process as the signal
by itself does, and not with the traceback of whichever import it fell into.
"""

import signal


def main() -> None:
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:  # a background job's stays ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from cli.main import main as run

    signal.signal(signal.SIGINT, before)
    run()


if __name__ == "__main__":
    main()
