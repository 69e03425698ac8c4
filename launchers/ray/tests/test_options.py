"""The table [launchers.ray]: what it refuses, and what it takes from Ray."""

import subprocess
import sys

import pytest
from llmperf.errors import UserError
from llmperf.types import NodeRequest
from llmperf_ray.launcher import RayLauncher, options_of


def request(hosts=(), devices=None, **options):
    return NodeRequest(nodes=2, devices=devices, hosts=hosts, options=options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"address_": "auto"}, "[launchers.ray]: unknown key 'address_'; did you mean 'address'?"),
        ({"address": "ray://head:10001"}, "[launchers.ray]: address: expected 'auto' or HOST:PORT, found 'ray://head"),
        ({"address": "head"}, "address: expected 'auto' or HOST:PORT, found 'head'"),
        ({"cpus": -1}, "[launchers.ray]: cpus: expected 0 or more, found -1"),
        ({"cpus": 0, "gpus": 0}, "expected at least one resource to take on each node"),
        ({"timeout_seconds": 0}, "timeout_seconds: expected more than 0, found 0"),
        ({"runtime_env": {"pip": ["x"]}}, "unknown key 'pip'"),
        ({"strategy": "SPRAED"}, "strategy"),
        ({"hosts": ("a", "b")}, "--hosts a, b: launcher 'ray' takes the nodes that Ray places"),
    ],
)
def test_options_that_ray_cannot_follow(options, message, one_line):
    with one_line(message):
        options_of(request(**options))


def test_a_node_takes_resources_and_the_container_image_of_the_command_line():
    options = options_of(request(cpus=4, gpus=8, resources={"fabric": 1}))
    assert options.bundle(8) == {"CPU": 4, "GPU": 8, "fabric": 1}
    options = options_of(request(runtime_env={"image_uri": "file", "env_vars": {"A": "1"}}))
    assert options.environment(None) == {"image_uri": "file", "env_vars": {"A": "1"}}
    assert options.environment("command-line") == {"image_uri": "command-line", "env_vars": {"A": "1"}}


def test_the_launcher_does_not_import_ray():
    code = "import llmperf_ray.launcher, llmperf_ray.plugin, sys; print('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


def test_nobody_listens_at_the_address():
    request = NodeRequest(nodes=1, devices=None, hosts=(), options={"address": "127.0.0.1:1"})
    with pytest.raises(UserError) as caught:
        RayLauncher().nodes(request)
    assert str(caught.value) == "[launchers.ray]: address: found no Ray cluster: Connection refused"
