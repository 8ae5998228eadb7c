"""Sweeps and searches on a Dask cluster: a real scheduler, two worker processes, one of which is killed at work."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import knee
from knee.cli import main
from knee.errors import InputError, RunError
from knee.study import cluster as workers
from knee.study import searches, sweeps
from knee.study.sweeps import sweepfile, work
from knee_house import sweep as bench_sweep
from search_examples import of, told

distributed = pytest.importorskip("distributed", reason="pip install 'knee[dask]'")

# Runs of some 10 ms, so that the sweep takes seconds and there is time to kill a worker.
BASE = {
    "duration": "10 s",
    "link": {"rate": "100 Mbit/s", "limit": "300 packets", "loss": 0.0001},
    "flows": [{"cc": "cubic", "rtt": "20 ms", "count": 2}],
}
SEARCH = """
duration = "1 s"
link = { rate = "10 Mbit/s", limit = "100 packets" }
flows = [{ cc = "reno", rtt = "20 ms" }]
[search]
figure = "queue_delay_mean_ms"
goal = "max"
trials = 4
batch = 4
shrink = false
[search.over]
link.rate = "loguniform(2 Mbit/s, 50 Mbit/s)"
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two workers in processes of their own, and a client."""
    with warnings.catch_warnings():
        # Distributed and tornado warn as they end; ours are errors still.
        warnings.simplefilter("ignore")
        settings = {"distributed.scheduler.allowed-failures": 3, "distributed.comm.timeouts.connect": "20s"}
        import dask

        with (
            dask.config.set(settings),
            distributed.LocalCluster(
                n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
            ) as made,
        ):
            yield made


def figures(sweep: sweeps.Sweep) -> pl.DataFrame:
    return sweep.runs.drop("wall_s").collect()


@pytest.mark.filterwarnings("ignore")
def test_clients_classes_and_commands_use_a_cluster(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Own(knee.CongestionControl):
        """Reno, which only this process knows."""

    short = BASE | {"duration": "1 s"}
    with distributed.Client(cluster, set_as_default=False) as client:
        made = knee.sweep(short, {"flows.0.cc": ["reno", Own]}, out=tmp_path / "own", dask=client, page=False)
        assert made.failed.is_empty()
        assert client.status == "running", "a client that was given stays open"
    monkeypatch.chdir(tmp_path)
    command = ["matrix", "--cc", "reno,vegas", "--set", "duration=6 s", "--dask", cluster.scheduler_address]
    assert main(command) == 0
    assert "results/matrix/matrix.html" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore")
def test_a_worker_with_another_program_is_refused_by_name(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    definition = sweepfile.read(BASE | {"duration": "1 s"}, {"seed": range(1, 4)})
    monkeypatch.setattr(work, "fingerprint", lambda: "0123abc")
    addresses = [worker.worker_address for worker in cluster.workers.values()]
    with pytest.raises(RunError, match=r"The worker tcp://.* has knee .* with the fingerprint") as refused:
        sweeps.run_sweep(definition, tmp_path / "s", dask=cluster.scheduler_address)
    assert any(address in str(refused.value) for address in addresses)
    assert not (tmp_path / "s").exists()
    # One that comes later finds out by itself.
    monkeypatch.setattr(sweeps, "fingerprint", lambda: "0123abc")
    monkeypatch.setattr("knee.study.cluster._check_workers", lambda client: None)
    with pytest.raises(RunError, match=r"The worker tcp://.* has knee"):
        sweeps.run_sweep(definition, tmp_path / "s", dask=cluster.scheduler_address)


def test_a_worker_without_the_program_is_refused_by_name() -> None:
    class Client:
        def run(self, function: Any, on_error: str) -> dict[str, Any]:
            return {"tcp://10.0.0.7:4242": ModuleNotFoundError("No module named 'knee.study.sweeps'")}

    with pytest.raises(InputError, match=r"tcp://10\.0\.0\.7:4242 cannot run knee .*No module named"):
        workers._check_workers(Client())


@pytest.mark.filterwarnings("ignore")
def test_a_scheduler_that_does_not_answer_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("knee.study.cluster.CONNECT_S", 0.5)
    begin = time.monotonic()
    definition = sweepfile.read(BASE, {"seed": range(1, 4)})
    with pytest.raises(RunError, match=r"The Dask scheduler tcp://127\.0\.0\.1:9 does not answer"):
        sweeps.run_sweep(definition, tmp_path / "s", dask="tcp://127.0.0.1:9")
    assert not (tmp_path / "s").exists()
    assert time.monotonic() - begin < 30


@pytest.fixture
def peer() -> Iterator[Callable[[bytes], str]]:
    """Gives the address of something that accepts connections, sends some bytes and never answers."""
    kept: list[socket.socket] = []

    def listen(sends: bytes) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        kept.append(listener)

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    kept.append(connection)
                    connection.sendall(sends)

        threading.Thread(target=serve, daemon=True).start()
        return f"tcp://127.0.0.1:{listener.getsockname()[1]}"

    yield listen
    for each in kept:
        each.close()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("sends", [b"", (1 << 40).to_bytes(8, "little") + bytes(64)], ids=["silent", "a terabyte"])
def test_what_listens_and_is_no_scheduler_is_reported(
    peer: Callable[[bytes], str], sends: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("knee.study.cluster.CONNECT_S", 0.5)
    definition = sweepfile.read(BASE, {"seed": range(1, 4)})
    with pytest.raises(RunError, match=r"The Dask scheduler tcp://127\.0\.0\.1:\d+ does not answer"):
        sweeps.run_sweep(definition, tmp_path / "s", dask=peer(sends))
    assert not (tmp_path / "s").exists()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("address", ["tls://127.0.0.1:9", "ucx://127.0.0.1:9", "http://127.0.0.1:9", "here"])
def test_an_address_that_cannot_be_used_is_refused(address: str, tmp_path: Path) -> None:
    definition = sweepfile.read(BASE, {"seed": range(1, 4)})
    with pytest.raises(InputError, match=f"'{address}' is no address .* tcp://10.0.0.1:8786 would do"):
        sweeps.run_sweep(definition, tmp_path / "s", dask=address)


@contextmanager
def process(*words: str) -> Iterator[subprocess.Popen[bytes]]:
    made = subprocess.Popen([sys.executable, "-m", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield made
    finally:
        made.kill()
        made.wait()


@contextmanager
def scheduler(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A scheduler in a process of its own, and its address."""
    file = folder / "scheduler.json"
    words = ["--port", "0", "--no-dashboard", "--host", "127.0.0.1", "--scheduler-file", str(file)]
    with process("distributed.cli.dask_scheduler", *words) as made:
        while not (file.exists() and file.read_text().rstrip().endswith("}")):
            assert made.poll() is None
            time.sleep(0.05)
        yield made, json.loads(file.read_text())["address"]


@pytest.mark.filterwarnings("ignore")
def test_a_scheduler_without_workers_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("knee.study.cluster.WORKERS_S", 0.5)
    definition = sweepfile.read(BASE, {"seed": range(1, 4)})
    with (
        scheduler(tmp_path) as (_, address),
        pytest.raises(RunError, match=f"The Dask scheduler {address} has had no workers for 0.5 s; start one with"),
    ):
        sweeps.run_sweep(definition, tmp_path / "s", dask=address)


@pytest.mark.filterwarnings("ignore")
def test_a_scheduler_that_dies_is_reported_and_the_sweep_goes_on_later(tmp_path: Path) -> None:
    definition = sweepfile.read(BASE, {"seed": range(1, 61)})
    words = ["--nthreads", "1", "--no-nanny", "--no-dashboard"]
    with (
        scheduler(tmp_path) as (died, address),
        process("distributed.cli.dask_worker", address, *words),
        pytest.raises(RunError, match=f"The connection to the Dask scheduler {address} is lost .* goes on with"),
    ):
        sweeps.run_sweep(definition, tmp_path / "s", dask=address, progress=lambda _: died.kill())
    kept = knee.open_sweep(tmp_path / "s").runs.collect()
    assert kept["error"].null_count() == kept.height < len(definition), "what was under way is no failed run"
    assert figures(sweeps.run_sweep(definition, tmp_path / "s")).equals(
        figures(sweeps.run_sweep(definition, tmp_path / "here"))
    )


@pytest.mark.filterwarnings("ignore")
def test_a_killed_worker_loses_nothing_and_nothing_is_twice(cluster: Any, tmp_path: Path) -> None:
    definition = sweepfile.read(BASE, {"seed": range(1, 161)})
    here = sweeps.run_sweep(definition, tmp_path / "here")
    killed: list[int] = []
    # As soon as the first rows come there are tasks at both workers.
    started = threading.Event()

    def kill() -> None:
        started.wait(60)
        pid = next(iter(cluster.workers.values())).pid
        os.kill(pid, signal.SIGKILL)
        killed.append(pid)

    killer = threading.Thread(target=kill)
    killer.start()
    there = sweeps.run_sweep(
        definition, tmp_path / "there", dask=cluster.scheduler_address, progress=lambda _: started.set()
    )
    killer.join()
    assert killed
    assert figures(there).equals(figures(here))
    for name in ("flows", "links"):
        one, other = (getattr(sweep, name).collect() for sweep in (here, there))
        order = ["run", "flow" if name == "flows" else "link"]
        assert one.sort(order).equals(other.sort(order)), name


@pytest.mark.filterwarnings("ignore")
def test_a_search_on_a_cluster_is_the_search_on_threads(cluster: Any, tmp_path: Path) -> None:
    """Its trials, its findings and their files, also where it is given a client, and where it goes on from a stop."""
    here = searches.run_search(of(), tmp_path / "here", jobs=2)
    assert here.findings
    assert told(searches.run_search(of(), tmp_path / "there", dask=cluster.scheduler_address)) == told(here)
    with distributed.Client(cluster, set_as_default=False) as client:
        searches.run_search(of(trials=7), tmp_path / "stopped", dask=client)
        assert told(searches.run_search(of(), tmp_path / "stopped", dask=client)) == told(here)
        assert client.status == "running", "a client that was given stays open"


@pytest.mark.filterwarnings("ignore")
def test_the_command_searches_on_a_cluster(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("small.toml").write_text(SEARCH)
    tables = []
    for place in (["--jobs", "2"], ["--dask", cluster.scheduler_address]):
        assert main(["search", "small.toml", "--out", place[0].strip("-"), *place]) == 0
        tables.append(pl.read_parquet(Path(place[0].strip("-")) / "search.parquet"))
    assert tables[0].height == 4
    assert tables[0].equals(tables[1])
    assert "findings/" in capsys.readouterr().out


@pytest.mark.docs
def test_the_bench_uses_the_settings_of_the_documents() -> None:
    import yaml
    from dask.config import get

    text = (Path(__file__).resolve().parent.parent / "docs" / "cluster.md").read_text(encoding="utf-8")
    (told,) = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    config = yaml.safe_load(told)
    assert {key: get(key, config=config) for key in bench_sweep.SETTINGS} == bench_sweep.SETTINGS
    for key in bench_sweep.SETTINGS:
        assert get(key) != bench_sweep.SETTINGS[key], "Dask has this setting, and another default"


@pytest.mark.filterwarnings("ignore")
def test_the_bench_measures_threads_and_workers() -> None:
    (made,) = bench_sweep.measure(1, {"short": 10}, names=["short"], dask=True)
    assert made["runs"] == 10
    assert made["dask_speed"] == pytest.approx(made["threads_s"] / made["dask_s"])
    assert made["dask_processor_speed"] == pytest.approx(made["threads_processor_s"] / made["dask_processor_s"])
    assert all(made[key] > 0 for key in ("engine_s", "sweep_s", "threads_processor_s", "dask_processor_s"))
