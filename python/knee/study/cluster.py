"""The workers of a Dask cluster as an executor: connecting, with a limit of waiting, and noticing that it has gone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Any

from knee.errors import InputError, RunError, in_a_line
from knee.study.sweeps import work
from knee.study.sweeps.work import OtherProgramError
from knee.system import extras

#: How long a scheduler may take to answer, s, and its workers to appear, at the start and after all have gone.
CONNECT_S, WORKERS_S = 10.0, 60.0
#: How often a cluster is asked for its size, s.
_ASK_S = 2.0
#: What becomes of what was done; every loss of the cluster ends with it.
_GOES_ON = "Runs that had finished are kept; the same command goes on with the others."


@contextmanager
def connected(where: Any) -> Iterator[tuple[Executor, Callable[[], int]]]:
    """The executor of a Dask cluster, and what gives its number of threads.

    Args:
        where: the address of its scheduler, such as ``tcp://10.0.0.1:8786``, or a ``distributed.Client``.

    Raises:
        InputError: that is no address that Dask can use here, or a worker cannot run knee.
        RunError: Dask is not installed, the scheduler does not answer or has no workers, or a worker has another
            version of the program.
    """
    extras.need("A cluster (--dask)", "distributed")
    from distributed import Client

    client: Any = where
    if isinstance(where, str):
        _require_scheduler(where)
        connect: Any = Client
        try:
            client = connect(where, timeout=CONNECT_S, set_as_default=False)
        except Exception as error:
            raise RunError(f"The Dask scheduler {where} does not answer ({in_a_line(error)}).") from None
    try:
        _require_workers(client)
        _check_workers(client)
        yield client.get_executor(pure=False), _Threads(client)
    finally:
        if client is not where:
            client.close(timeout=CONNECT_S)


def _require_scheduler(address: str) -> None:
    """Asks whatever listens at an address who it is; a client of Dask would wait for the answer for ever."""
    try:
        identity = asyncio.run(asyncio.wait_for(_identity(address), CONNECT_S))
    except TimeoutError:
        raise RunError(f"The Dask scheduler {address} does not answer within {CONNECT_S:g} s.") from None
    except (ValueError, TypeError) as error:
        raise InputError(
            f"{address!r} is no address of a Dask scheduler that can be used here ({in_a_line(error)}); one such as "
            "tcp://10.0.0.1:8786 would do. Other protocols need what Dask's documentation says of them, such as "
            "distributed.comm.tls in its configuration for tls://."
        ) from None
    except Exception as error:
        raise RunError(f"The Dask scheduler {address} does not answer ({in_a_line(error)}).") from None
    kind = identity.get("type") if isinstance(identity, dict) else None
    if kind != "Scheduler":
        raise InputError(f"What answers at {address} is no Dask scheduler but {kind or 'something else'}.")


async def _identity(address: str) -> Any:
    from distributed import rpc
    from distributed.security import Security

    ask: Any = rpc
    configured: Any = Security
    arguments = configured().get_connection_args("client")
    async with ask(address, timeout=CONNECT_S, connection_args=arguments) as scheduler:
        return await scheduler.identity()


def _require_workers(client: Any) -> None:
    try:
        client.wait_for_workers(1, timeout=WORKERS_S)
    except TimeoutError:
        raise RunError(
            f"The Dask scheduler {_address(client)} has had no workers for {WORKERS_S:g} s; start one with "
            f"dask worker {_address(client)}."
        ) from None
    except Exception as error:
        raise _lost(client, error) from None


def _address(client: Any) -> str:
    return getattr(client.scheduler, "address", None) or "of the client"


def _lost(client: Any, error: BaseException | str) -> RunError:
    reason = error if isinstance(error, str) else in_a_line(error)
    return RunError(f"The connection to the Dask scheduler {_address(client)} is lost ({reason}). {_GOES_ON}")


class _Threads:
    """The number of threads of a cluster, asked for now and then.

    Raises:
        RunError: the scheduler has gone, or there have been no workers for :data:`WORKERS_S`.
    """

    def __init__(self, client: Any) -> None:
        self._client, self._asked, self._threads = client, float("-inf"), 1
        self._alone_since: float | None = None

    def __call__(self) -> int:
        if self._client.status != "running":
            raise _lost(self._client, f"the client is {self._client.status}")
        now = time.monotonic()
        if now - self._asked > _ASK_S:
            self._asked = now
            self._ask(now)
        return self._threads

    def _ask(self, now: float) -> None:
        try:
            threads = self._client.sync(self._client.scheduler.ncores, callback_timeout=WORKERS_S)
        except Exception as error:
            raise _lost(self._client, error) from None
        self._threads = max(sum(threads.values()), 1)
        if threads:
            self._alone_since = None
        elif self._alone_since is None:
            self._alone_since = now
        elif now - self._alone_since > WORKERS_S:
            raise RunError(
                f"The Dask scheduler {_address(self._client)} has had no workers for {WORKERS_S:g} s. {_GOES_ON}"
            )


def _check_workers(client: Any) -> None:
    """Refuses workers with another program by name; those that come later find out by themselves."""
    try:
        answers = client.run(work.identity, on_error="return")
    except Exception as error:
        raise _lost(client, error) from None
    for address, found in answers.items():
        if isinstance(found, BaseException):
            raise work.no_program(address, in_a_line(found))
        if found != work.identity():
            raise OtherProgramError(work.other_program(f"The worker {address}", found, work.identity()["fingerprint"]))
