"""A real two-node Ray cluster on this machine, each node with an engine of its own, on the cpu backend."""

from __future__ import annotations

import pytest

from harness.measure import open_backend

HEAD = "import os, torch\nimport torch.nn.functional as F\n"
HONEST = HEAD + "def custom_kernel(data):\n    x, w = data\n    return F.rms_norm(x, (x.shape[-1],), w, 1e-6)\n"


@pytest.mark.slow
def test_a_cluster_that_is_not_there_is_one_clear_line():
    with pytest.raises(OSError, match=r"no Ray cluster at 127\.0\.0\.1:1"):
        open_backend("cpu", ray="127.0.0.1:1")
    with pytest.raises(OSError, match="expected HOST:PORT, auto or local"):
        open_backend("cpu", ray="somewhere")


@pytest.fixture(scope="module")
def cluster():
    import ray
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    made.add_node(num_cpus=1)
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.mark.slow
def test_every_node_measures_and_a_lost_worker_costs_no_kernel(cluster):
    import ray

    with open_backend("cpu", workers=1, ray=cluster.address, build_s=60.0, check_s=30.0) as fleet:
        assert len(fleet.members) == len({row["session_id"] for row in fleet.session_rows()}) == 2
        first = [fleet.submit("rms_norm", HONEST + f"# {i}\n") for i in range(6)]
        results = [future.result(240) for future in first]
        assert [r.status for r in results] == ["ok"] * 6
        assert len({r.session_id for r in results}) == 2
        bad = fleet.submit("rms_norm", HEAD + "def custom_kernel(data):\n    os._exit(1)\n").result(240)
        assert bad.status == "runtime"
        with pytest.raises(KeyError, match="rms_nrom"):
            fleet.submit("rms_nrom", HONEST).result(240)
        ray.kill(fleet.members[0]._actor)
        after = [fleet.submit("rms_norm", HONEST + f"# after {i}\n") for i in range(3)]
        assert [future.result(240).status for future in after] == ["ok"] * 3
        with pytest.raises(OSError, match=r"already, not in 127\.0\.0\.1:1"):
            open_backend("cpu", ray="127.0.0.1:1")
