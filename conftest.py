"""For the tests of every member."""

import signal

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")  # how long an example takes depends on what else the machine does


def pytest_configure() -> None:
    """Undo an inherited ignore of Ctrl-C: shells set it for what they start with `&`, and runs rightly keep it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
