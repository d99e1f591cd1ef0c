"""The number of threads: argument, then environment, then the CPUs this process may use."""

import os

import numpy as np
import pytest

import fastmm as mm
from fastmm import config
from fastmm.config import resolve_threads


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch):
    for variable in ("FASTMM_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def machine(monkeypatch):
    """A machine with the given CPUs and quota."""

    def build(cpus, quota=1 << 30):
        monkeypatch.setattr(config, "_allowed_cpus", lambda: cpus)
        monkeypatch.setattr(config, "_quota", lambda: quota)

    return build


def test_the_argument_comes_first(monkeypatch):
    monkeypatch.setenv("FASTMM_NUM_THREADS", "7")
    assert resolve_threads(3) == 3
    assert resolve_threads(np.int32(2)) == 2


@pytest.mark.parametrize("threads", [0, -1, 1.5, 2.0, "2", True, np.nan])
def test_an_argument_that_is_no_count_is_refused(threads):
    with pytest.raises(ValueError, match=r"threads: got .*; allowed: None or a positive integer"):
        resolve_threads(threads)


def test_a_compiled_call_refuses_it_too():
    problem = mm.Problem([[[1.0], [0.0]]], [1.0], [1.0])
    with pytest.raises(ValueError, match="threads: got 0"):
        mm.loss_and_grad(problem, [0.0], threads=0)


def test_our_variable_comes_before_that_of_openmp(monkeypatch, machine):
    machine(16)
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert resolve_threads() == 5
    monkeypatch.setenv("FASTMM_NUM_THREADS", "4")
    assert resolve_threads() == 4


@pytest.mark.parametrize(("text", "count"), [("3", 3), (" 3 ", 3), ("3,2", 3), ("64", 64)])
def test_the_environment_is_read(monkeypatch, machine, text, count):
    machine(2)
    monkeypatch.setenv("OMP_NUM_THREADS", text)
    assert resolve_threads() == count


@pytest.mark.parametrize("text", ["", " ", "0", "-2", "many", "1.5", ",3", "²"])
def test_nonsense_in_the_environment_is_passed_over(monkeypatch, machine, text):
    machine(6)
    monkeypatch.setenv("FASTMM_NUM_THREADS", text)
    monkeypatch.setenv("OMP_NUM_THREADS", text)
    assert resolve_threads() == 6


@pytest.mark.parametrize(("cpus", "quota", "count"), [(8, 1 << 30, 8), (8, 3, 3), (2, 5, 2), (1, 1, 1)])
def test_the_smaller_of_cpus_and_quota_counts(machine, cpus, quota, count):
    machine(cpus, quota)
    assert resolve_threads() == count


def test_the_cpus_of_this_process_count_not_those_of_the_machine(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 2, 3}, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    assert config._allowed_cpus() == 3


def test_without_affinity_the_cpus_of_the_machine_count(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 12)
    assert config._allowed_cpus() == 12
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert config._allowed_cpus() == 1


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("200000 100000\n", 2),
        ("150000 100000\n", 2),
        ("50000 100000\n", 1),
        ("max 100000\n", 1 << 30),
        ("nonsense\n", 1 << 30),
        ("", 1 << 30),
    ],
)
def test_the_quota_of_a_container_is_rounded_up(tmp_path, text, count):
    file = tmp_path / "cpu.max"
    file.write_text(text)
    assert config._quota(str(file)) == count


def test_without_a_control_group_there_is_no_quota(tmp_path):
    assert config._quota(str(tmp_path / "absent")) == 1 << 30


def test_results_do_not_depend_on_the_count():
    rng = np.random.default_rng(3)
    problem = mm.Problem(rng.normal(size=(37, 3, 4, 5)), rng.choice([-1.0, 1.0], (37, 3)), rng.normal(size=(37, 5)))
    one = mm.descend(problem, steps=50, threads=1).p
    for threads in (2, 3, 8):
        assert np.array_equal(mm.descend(problem, steps=50, threads=threads).p, one)
