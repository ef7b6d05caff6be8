"""The same engines over a Ray cluster: one actor for each GPU, or for each node where kernels are only checked.

Every node needs KernelCast and, for GPUs, torch and triton.
"""

from __future__ import annotations

import os
import socket
from concurrent.futures import Future
from typing import Any

from harness.measure.fleet import Fleet
from harness.measure.limits import InfrastructureError, Limits
from harness.measure.processes import ROOT
from harness.measure.result import Measurement

START_S = 600.0
REACH_S = 5.0


class _Worker:
    """Lives in an actor: an engine on the GPU that Ray assigned to it."""

    def __init__(self, device: str, workers: int, limits: Limits, isolation: str) -> None:
        from harness.measure.engine import Engine

        # Ray has set CUDA_VISIBLE_DEVICES to this actor's GPU, and the engine's processes inherit it.
        self.engine = Engine(device, workers, limits, isolation)

    def session_rows(self) -> list[dict[str, Any]]:
        return self.engine.session_rows()

    def measure(self, task: str, code: str, language: str | None, isolation: str | None) -> dict[str, Any]:
        return self.engine.submit(task, code, language, isolation).result().to_json()

    def abort(self) -> None:
        self.engine.abort()

    def close(self) -> None:
        self.engine.close()


class RemoteEngine:
    """A member of a fleet whose engine runs in a Ray actor."""

    def __init__(self, actor: Any, rows: list[dict[str, Any]]) -> None:
        self._actor, self._rows = actor, rows
        self.session = rows[0]

    def session_rows(self) -> list[dict[str, Any]]:
        """Return the rows that the engine wrote when it started."""
        return self._rows

    def submit(
        self, task: str, code: str, language: str | None = None, isolation: str | None = None
    ) -> Future[Measurement]:
        """Queue one kernel; see `Engine.submit`. A lost actor is an InfrastructureError."""
        promised: Future[Measurement] = Future()
        asked = self._actor.measure.remote(task, code, language, isolation).future()
        asked.add_done_callback(lambda done: _pass_on(done, promised))
        return promised

    def abort(self) -> None:
        """End the actor and with it every process of its engine."""
        import ray

        ray.kill(self._actor)

    def close(self) -> None:
        """Close the engine, then end the actor."""
        import ray
        from ray.exceptions import RayError

        try:
            ray.get(self._actor.close.remote(), timeout=START_S)
        except RayError:
            return  # it is gone, and its processes with it
        ray.kill(self._actor)


def _pass_on(done: Future[dict[str, Any]], promised: Future[Measurement]) -> None:
    from ray.exceptions import RayActorError, RayTaskError

    error = done.exception()
    if error is None:
        promised.set_result(Measurement.from_json(done.result()))
    elif isinstance(error, RayTaskError) and not isinstance(error.cause, InfrastructureError):
        promised.set_exception(error.cause)
    elif isinstance(error, RayActorError | RayTaskError):
        promised.set_exception(InfrastructureError(f"a worker of the cluster failed: {error}"))
    else:
        promised.set_exception(error)


def _reach(address: str) -> None:
    """Raise InfrastructureError unless somebody listens at the address; Ray by itself tries for minutes."""
    if address in ("local", "auto"):
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        raise InfrastructureError(f"'{address}' is no address of a Ray cluster; expected HOST:PORT, auto or local")
    try:
        socket.create_connection((host, int(port)), REACH_S).close()
    except OSError as error:
        raise InfrastructureError(f"no Ray cluster at {address}: {error}") from None


def ray_fleet(address: str, device: str, workers: int, limits: Limits, isolation: str) -> Fleet:
    """Start an engine on every GPU (`cuda`) or node (`cpu`) of the cluster at `address`; `local` starts one here.

    `workers` builds run at once on each. Raises InfrastructureError: no cluster there, or nothing to measure on.
    """
    import ray

    if ray.is_initialized():
        here = ray.get_runtime_context().gcs_address
        if address not in ("local", "auto", here):
            raise InfrastructureError(f"this process is in the Ray cluster at {here} already, not in {address}")
    else:
        _reach(address)
        try:
            path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
            ray.init(
                None if address == "local" else address, log_to_driver=False, logging_level="ERROR",
                runtime_env={"env_vars": {"PYTHONPATH": path}},
            )  # fmt: skip
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise InfrastructureError(f"no Ray cluster at {address}: {error}") from None
    nodes = [node for node in ray.nodes() if node["Alive"]]
    count = int(ray.cluster_resources().get("GPU", 0)) if device == "cuda" else len(nodes)
    if not count:
        raise InfrastructureError(f"the Ray cluster at {address} has no GPU; use --backend cpu to check without timing")
    needs: dict[str, Any] = {"num_gpus": 1} if device == "cuda" else {"num_cpus": 1}
    remote = ray.remote(_Worker).options(scheduling_strategy="SPREAD", max_concurrency=64, **needs)  # type: ignore[call-overload]
    actors = [remote.remote(device, workers, limits, isolation) for _ in range(count)]
    rows = ray.get([actor.session_rows.remote() for actor in actors], timeout=START_S)
    return Fleet([RemoteEngine(actor, row) for actor, row in zip(actors, rows, strict=True)])
