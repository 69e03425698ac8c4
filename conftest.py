"""For the tests of every member."""

import signal


def pytest_configure() -> None:
    """Undo an inherited ignore of Ctrl-C: shells set it for what they start with `&`, and runs rightly keep it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
