"""The build of Paddle in an environment: one, and new enough. Doctor shows what speaks against it."""

import pytest
from llmperf.running.doctor import examine
from llmperf_paddle import installed


@pytest.fixture
def builds(monkeypatch):
    """A function that has this environment contain these distributions of Paddle."""

    def play(**versions):
        present = {name.replace("_", "-"): version for name, version in versions.items()}
        monkeypatch.setattr(installed, "installed_builds", lambda: present)
        monkeypatch.setattr(installed, "find_spec", lambda name: object() if present else None)

    return play


@pytest.mark.parametrize("version", ["3.3.1", "3.10.0.dev20260101", "4.0.0", "0.0.0", "beta"])
def test_one_build_that_is_new_enough_or_of_unknown_version_passes(builds, version):
    builds(paddlepaddle_gpu=version)
    assert installed.build_problem() is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("versions", "message"),
    [
        ({}, "expected Paddle 3.3 or later, found none: for a CPU, uv pip install 'paddlepaddle>=3.3' setuptools;"),
        ({"paddlepaddle_gpu": "2.6.2"}, "expected Paddle 3.3 or later, found paddlepaddle-gpu 2.6.2 (docs/drivers.md"),
        (
            {"paddlepaddle": "3.3.1", "paddlepaddle_gpu": "3.3.1"},
            "paddlepaddle 3.3.1 and paddlepaddle-gpu 3.3.1 overwrite each other's files: expected one of them",
        ),
    ],
)
def test_doctor_says_what_speaks_against_the_builds(builds, versions, message):
    builds(**versions)
    (diagnosis,) = [diagnosis for diagnosis in examine() if diagnosis.subject == "Paddle"]
    assert (diagnosis.state, message in diagnosis.message) == ("missing", True)


def test_the_installed_build_is_found():
    assert list(installed.installed_builds()) == ["paddlepaddle"]
    assert installed.build_problem() is None
