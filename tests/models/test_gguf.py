"""Model files without a real library: `tests/system/test_local_model.py` has one."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path
from textwrap import dedent

import pytest

from ostler.core.processes import start_time
from ostler.models import gguf
from ostler.models.catalogue import FREE, ModelProfile
from ostler.models.factory import make_model
from ostler.models.gguf import GgufModel
from ostler.models.providers import PROVIDERS
from ostler.schema.errors import NoModel, UsageError
from ostler.schema.messages import Text
from tests.models.wires.wire_cases import answer_of, request_of
from tests.support.command import wait_until

Install = Callable[[str], None]

LIBRARY = """
    import ctypes, os, pathlib, sys
    from types import SimpleNamespace

    def CommonParams():
        return SimpleNamespace(
            model=SimpleNamespace(), cpuparams=SimpleNamespace(), cpuparams_batch=SimpleNamespace()
        )

    class Server:
        def __init__(self, parameters):
            pathlib.Path(parameters.model.path).with_suffix(".pid").write_text(str(os.getpid()))
"""
# A call through PyDLL keeps the interpreter's lock, as the library does while it loads.
LOADS_FOR_EVER = "ctypes.PyDLL(None).sleep(600)"
SERVES = """
        from ostler.testkit.vendors import FakeVendor, turn
        self.vendor = FakeVendor([turn("one"), turn("two")]).__enter__()
        self.listening_address = self.vendor.chat_url.removesuffix("/v1")
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs a library whose server does this when it is made."""

    def write(behaviour: str) -> None:
        folder = tmp_path / "installed"
        folder.mkdir()
        (folder / "xllamacpp.py").write_text(f"{dedent(LIBRARY)}        {behaviour}\n")
        monkeypatch.syspath_prepend(folder)
        monkeypatch.setenv("PYTHONPATH", str(folder))

    return write


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "small.gguf"
    path.write_bytes(b"GGUF and so on")
    return path


def model_of(file: Path) -> GgufModel:
    return GgufModel(str(file), settings=ModelProfile(prices=FREE))


def pid_of(file: Path) -> int:
    """Of the server, once it loads."""
    written = file.with_suffix(".pid")
    wait_until(lambda: written.exists() and written.read_text())
    return int(written.read_text())


def test_a_path_that_is_no_model_file_is_refused_when_it_is_named(tmp_path: Path) -> None:
    text = tmp_path / "a.txt"
    text.write_text("hello")
    with pytest.raises(UsageError, match="is not a GGUF file"):
        make_model(f"gguf/{text}")
    with pytest.raises(UsageError, match="No such file"):
        make_model(f"gguf/{tmp_path / 'missing.gguf'}")
    with pytest.raises(UsageError, match="Is a directory"):
        make_model(f"gguf/{tmp_path}")


def test_a_missing_library_is_answered_with_the_extra_to_install(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gguf, "find_spec", lambda name: None)
    with pytest.raises(NoModel, match=r"install `ostler\[local\]`"):
        make_model(f"gguf/{file}")


def test_a_file_has_no_base_url(file: Path) -> None:
    with pytest.raises(UsageError, match="has no base URL"):
        make_model(f"gguf/{file}", base_url="http://127.0.0.1:1/v1")


def test_a_file_in_the_home_folder_keeps_its_short_name(
    file: Path, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("pass")
    monkeypatch.setenv("HOME", str(file.parent))
    assert make_model("gguf/~/small.gguf").name == "gguf/~/small.gguf"
    assert not PROVIDERS["gguf"].charges


async def test_a_file_that_cannot_be_loaded_fails_with_the_loaders_error(
    file: Path, install: Install
) -> None:
    install("print('0.1 E x: error loading model: it is cut', file=sys.stderr); raise RuntimeError('params')")
    model = model_of(file)
    answer = await answer_of(model, request_of())
    assert answer.failure.failure.message == f"cannot serve {file}: it is cut"
    assert answer.failure.failure.kind == "invalid_request"
    assert answer.failure.usage.cost == 0.0
    await model.aclose()


@pytest.mark.parametrize(
    ("behaviour", "message"),
    [("os.kill(os.getpid(), 9)", "enough memory"), ("import nothing_of_that_name", "nothing_of_that_name")],
)
async def test_a_server_that_dies_while_it_loads_is_a_failure(
    file: Path, install: Install, behaviour: str, message: str
) -> None:
    install(behaviour)
    model = model_of(file)
    for _ in range(2):  # the second request starts another one
        answer = await answer_of(model, request_of())
        assert message in answer.failure.failure.message
    await model.aclose()


async def test_a_model_that_loads_too_slowly_fails(
    file: Path, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(LOADS_FOR_EVER)
    monkeypatch.setattr(gguf, "LOAD_SECONDS", 0.3)
    answer = await answer_of(model_of(file), request_of())
    assert answer.failure.failure.message == f"{file} was not loaded within 0.3 s"


async def test_loading_yields_empty_batches_survives_its_request_and_ends_with_the_model(
    file: Path, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(LOADS_FOR_EVER)
    monkeypatch.setattr(gguf, "PULSE_SECONDS", 0.01)
    model = model_of(file)
    async with asyncio.timeout(60), aclosing(model.stream(request_of())) as stream:
        assert await anext(stream) == []
        pid = pid_of(file)
    assert start_time(pid)
    await model.aclose()
    assert not start_time(pid)


async def test_a_server_that_died_between_two_requests_is_started_again(file: Path, install: Install) -> None:
    install(SERVES)
    model = model_of(file)
    contents = [(await answer_of(model, request_of())).done.content for _ in range(2)]
    os.kill(pid_of(file), signal.SIGKILL)
    await asyncio.to_thread(os.waitid, os.P_PID, pid_of(file), os.WEXITED | os.WNOWAIT)
    contents.append((await answer_of(model, request_of())).done.content)
    assert contents == [(Text("one"),), (Text("two"),), (Text("one"),)]
    await model.aclose()
    assert not start_time(pid_of(file))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it ends when it has been loaded")
def test_a_server_ends_with_its_owner_even_while_it_loads(file: Path, install: Install) -> None:
    install(LOADS_FOR_EVER)
    program = f"""
        import asyncio
        from ostler.core.model import ModelRequest, Transcript
        from ostler.models.factory import make_model

        async def wait():
            async for _ in make_model("gguf/{file}").stream(ModelRequest("mc_1", "m", Transcript())):
                pass

        asyncio.run(wait())
    """
    owner = subprocess.Popen([sys.executable, "-c", dedent(program)])
    try:
        pid = pid_of(file)
    finally:
        owner.kill()
        owner.wait()
    wait_until(lambda: not start_time(pid))
