"""A Dask cluster: the same bits, and workers that are lost while at work."""

import os
import warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context

import pytest
from scan_helpers import dies_once, same, small, value

import fastmm as mm

pytest.importorskip("xarray")
distributed = pytest.importorskip("distributed")

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:Port:UserWarning"),
]


@pytest.fixture(scope="module")
def client():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with (
            distributed.LocalCluster(
                n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
            ) as cluster,
            distributed.Client(cluster) as client,
        ):
            yield client


def test_a_cluster_of_two_workers_leaves_every_bit(client):
    assert same(small(), small(executor=client, chunk=7))


def test_functions_typed_at_a_prompt_travel_to_it(client):
    def local(rng, k):
        return float(rng.standard_normal() + k)

    data = mm.scan(local, {"k": [1, 2]}, 9, 0, executor=client, progress=False, chunk=2)
    assert same(data, mm.scan(local, {"k": [1, 2]}, 9, 0, progress=False))


def test_a_worker_killed_in_the_middle_of_a_chunk_costs_nothing(client, tmp_path):
    grid = {"k": [1, 2, 3], "flag": str(tmp_path / "died"), "home": os.getpid()}
    want = mm.scan(dies_once, grid, 12, 0, progress=False)
    assert not (tmp_path / "died").exists()
    store = tmp_path / "s.zarr"
    assert same(want, mm.scan(dies_once, grid, 12, 0, executor=client, progress=False, chunk=3, store=store))
    assert (tmp_path / "died").exists()


def test_a_broken_process_pool_is_told_and_its_store_continued(tmp_path):
    """A process pool cannot be mended: what was done is stored, and another engine goes on."""
    grid = {"k": [1, 2, 3], "flag": str(tmp_path / "died"), "home": os.getpid()}
    store = tmp_path / "s.zarr"
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool, pytest.raises(BrokenProcessPool):
        mm.scan(dies_once, grid, 12, 0, executor=pool, progress=False, chunk=3, store=store)
    again = mm.scan(dies_once, grid, 12, 0, progress=False, chunk=3, store=store)
    assert same(again, mm.scan(dies_once, grid, 12, 0, progress=False))


def test_only_a_window_of_chunks_is_submitted():
    """A thousand chunks, and never more than two for each worker in the executor's hands."""

    class Counting(ThreadPoolExecutor):
        most = waiting = 0

        def submit(self, *arguments):
            self.waiting += 1
            self.most = max(self.most, self.waiting)
            future = super().submit(*arguments)
            future.add_done_callback(self.ended)
            return future

        def ended(self, future):
            self.waiting -= 1

    with Counting(2) as pool:
        mm.scan(value, {"k": list(range(50))}, 20, 0, executor=pool, chunk=1, progress=False)
    assert pool.most <= 4


def test_an_executor_that_is_none_is_refused():
    with pytest.raises(TypeError, match="executor: got int"):
        mm.scan(value, {"k": 1}, 2, 0, executor=3, progress=False)
