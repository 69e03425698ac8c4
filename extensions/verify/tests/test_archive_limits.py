"""Archives whose headers would take all memory or time: refused in one line, in a process with little memory."""

import gzip
import re
import subprocess
import sys
import tarfile
import time
import zipfile

import pytest
from llmperf.cli.main import call


def header(name, kind, size):
    member = tarfile.TarInfo(name)
    member.type, member.size = kind, size
    return member.tobuf(tarfile.GNU_FORMAT)


def padded(data):
    return data + bytes(-len(data) % 512)


def zeros(blocks):
    """GiB of zeros, some KiB as a tar.gz."""
    for _ in range(blocks):
        yield bytes(2**20)


def pax(records):
    """The body of a pax header with these keys and values."""
    body = b""
    for key, value in records:
        size = len(key) + len(value) + 3
        size += len(str(size + len(str(size))))
        body += b"%d %s=%s\n" % (size, key, value)
    return body


def many_folders():
    for number in range(50_000):
        yield header(f"d{number}/", tarfile.DIRTYPE, 0)


def folders_around_files():
    """Files that each lie in folders of their own, which have no members."""
    for number in range(3_000):
        yield header("/".join([f"f{number}", *"abcdefghij", "result.json"]), tarfile.REGTYPE, 0)


def pax_chain():
    body = pax([(b"a", b"b")])
    for _ in range(2000):
        yield header("x", tarfile.XHDTYPE, len(body)) + padded(body)
    yield header("result.json", tarfile.REGTYPE, 0)


def many_pax_headers():
    for number in range(2_000):
        body = pax([(b"k%d" % number, b"v" * 60_000)])
        yield header("x", tarfile.XHDTYPE, len(body)) + padded(body) + header(f"f{number}", tarfile.REGTYPE, 0)


def global_headers():
    for number in range(2_000):
        body = pax([(b"k%d" % number, b"v" * 60_000)])
        yield header("g", tarfile.XGLTYPE, len(body)) + padded(body)


def sparse_map():
    """A pax header that announces a map of 100 million places, in a file's content."""
    body = pax([(b"GNU.sparse.major", b"1"), (b"GNU.sparse.minor", b"0"), (b"GNU.sparse.name", b"s")])
    yield header("x", tarfile.XHDTYPE, len(body)) + padded(body)
    yield header("s", tarfile.REGTYPE, 2**31)
    yield b"100000000\n" + b"1\n" * 507
    for _ in range(1500):
        yield b"1\n" * 2**19


BOMBS = {
    "long name": (lambda: [header("n", tarfile.GNUTYPE_LONGNAME, 2**31), *zeros(2048)], "headers of at most 64 KiB"),
    "long link": (lambda: [header("n", tarfile.GNUTYPE_LONGLINK, 2**31), *zeros(2048)], "headers of at most 64 KiB"),
    "pax": (lambda: [header("n", tarfile.XHDTYPE, 2**31), *zeros(2048)], "headers of at most 64 KiB"),
    "global pax": (lambda: [header("n", tarfile.XGLTYPE, 2**31), *zeros(2048)], "headers of at most 64 KiB"),
    "many global pax": (global_headers, "headers of at most 64 KiB"),
    "sum of pax": (many_pax_headers, "headers of at most 64 KiB, and 32 MiB in all"),
    "folders": (many_folders, "more than 20000 members"),
    "folders around files": (folders_around_files, "more than 20000 folders"),
    "chain": (pax_chain, "headers of at most|cannot be unpacked"),
    "sparse map": (sparse_map, "headers of at most 1024 KiB for a member"),
    "sparse": (lambda: [header("n", tarfile.GNUTYPE_SPARSE, 512), *zeros(1)], "found a sparse one"),
}
QUICK_BOMBS = {"folders", "chain", "sparse"}
"""One for each kind of bound; the others take seconds."""
ADDRESS_SPACE = 900 * 2**20
"""Twice what `validate` takes of an honest archive; most of it is the address space of shared libraries."""


@pytest.fixture(scope="session")
def bounded():
    """A function that validates an archive in a process with little memory: exit code, findings, seconds."""

    def validate(path):
        program = (
            f"import resource, sys; resource.setrlimit(resource.RLIMIT_AS, ({ADDRESS_SPACE}, {ADDRESS_SPACE}))\n"
            "from llmperf.cli.main import call; sys.exit(call(['validate', sys.argv[1]]))"
        )
        begin = time.monotonic()
        done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, timeout=100)
        return done, time.monotonic() - begin

    return validate


@pytest.mark.parametrize(
    "bomb", [pytest.param(name, marks=[] if name in QUICK_BOMBS else [pytest.mark.slow]) for name in BOMBS]
)
def test_headers_of_an_archive_are_bounded(tmp_path, bounded, bomb):
    parts, said = BOMBS[bomb]
    path = tmp_path / "bomb.tar.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        for part in parts():
            file.write(part)
    assert path.stat().st_size < 20 * 2**20
    done, seconds = bounded(path)
    assert done.returncode == 2, done.stdout + done.stderr
    assert re.search(said, done.stdout), done.stdout + done.stderr
    assert len(done.stdout.splitlines()) == 1
    assert seconds < 60


@pytest.mark.slow
def test_the_list_of_members_of_a_zip_is_bounded(tmp_path, bounded):
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("result.json", b"{}")
    directory, end = path.read_bytes().split(b"PK\x05\x06")
    directory = directory[directory.index(b"PK\x01\x02") :]
    count = 33 * 2**20 // len(directory)
    size = (count * len(directory)).to_bytes(4, "little")
    path.write_bytes(directory * count + b"PK\x05\x06" + end[:4] + b"\xff\xff\xff\xff" + size + bytes(6))
    done, _ = bounded(path)
    assert "more than 20000 members" in done.stdout
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(20_001):
            archive.writestr(f"d{number}/", b"")
    done, _ = bounded(path)
    assert "more than 20000 members" in done.stdout


@pytest.mark.slow
def test_an_honest_archive_is_read_with_little_memory(run_folder, tmp_path, bounded):
    output = tmp_path / "submission.zip"
    assert call(["pack", str(run_folder), "-o", str(output)]) == 0
    done, _ = bounded(output)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_name_with_a_nul_is_refused(tmp_path, ran):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("result.jsonX.txt", "{}")
    path.write_bytes(path.read_bytes().replace(b"result.jsonX.txt", b"result.json\0.txt"))
    assert "expected names inside the archive, found 'result.json\\x00.txt'" in ran(2, "validate", path).out


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("names", [("a", "a"), ("run/result.json", "run/Result.json"), ("a\u00e9/x", "ae\u0301/x")])
@pytest.mark.parametrize("ending", ["zip", "tar.gz"])
def test_names_that_are_one_on_some_systems_are_refused(names, ending, tmp_path, ran):
    path = tmp_path / f"a.{ending}"
    if ending == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            for name in names:
                archive.writestr(name, "{}")
    else:
        with tarfile.open(path, "w:gz") as archive:
            for name in names:
                archive.addfile(tarfile.TarInfo(name))
    captured = ran(2, "validate", path)
    assert "occurs twice" in captured.err + captured.out
