"""One honest run for all cheats, made once."""

import tempfile

import pytest

from .forging import CASE, FRAMEWORK, SETTINGS, Forgery


@pytest.fixture(scope="session")
def honest_run(tmp_path_factory, apart):
    """The folder of a real run of a tiny case on two ranks."""
    out = tmp_path_factory.mktemp("honest")
    sets = [word for setting in SETTINGS for word in ("--set", setting)]
    command = ["run", CASE, "--framework", FRAMEWORK, "--vendor", "cpu", "--devices", "2", *sets, "--out", str(out)]
    apart(0, *command)
    (folder,) = out.iterdir()
    return folder


@pytest.fixture
def forgery(honest_run, tmp_path, monkeypatch):
    """A copy of the honest run, to be forged."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # reruns that fail keep their folders
    return Forgery(honest_run, tmp_path / honest_run.name)


@pytest.fixture
def timed(honest_run, tmp_path):
    """Makes copies of the honest run, to be forged, whose measured steps took known times and whose peak is known."""

    def made(name):
        (tmp_path / name).mkdir()
        copy = Forgery(honest_run, tmp_path / name / honest_run.name)
        copy.time_steps()
        return copy

    return made
