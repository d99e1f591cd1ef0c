"""The thread policy: the argument, else the environment, else the CPUs this process may use."""

import os

import numpy as np
import pytest

import fastmm as mm
from fastmm import config
from fastmm.config import resolve_threads

VARIABLES = ("FASTMM_NUM_THREADS", "OMP_NUM_THREADS")
UNLIMITED = 1 << 30


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch):
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)


@pytest.mark.parametrize("threads", [1, 2, 7, np.int64(3)])
def test_an_argument_is_taken_as_given(monkeypatch, threads):
    """Whatever the environment says, and more than there are CPUs included."""
    monkeypatch.setenv("FASTMM_NUM_THREADS", "5")
    got = resolve_threads(threads)
    assert got == threads
    assert type(got) is int


@pytest.mark.parametrize("threads", [0, -1, 1.0, 2.5, True, False, "2", np.float64(2)])
def test_a_wrong_argument_is_named(threads):
    with pytest.raises(ValueError, match=r"threads: got .*; allowed: None or an integer in 1..4096"):
        resolve_threads(threads)


def test_own_variable_goes_before_the_general_one(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    assert resolve_threads() == 4
    monkeypatch.setenv("FASTMM_NUM_THREADS", "3")
    assert resolve_threads() == 3


def test_the_outermost_level_of_a_nested_setting_counts(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", " 6,2 ")
    assert resolve_threads() == 6


@pytest.mark.parametrize("text", ["", "0", "-2", "many", "1.5", "²", ",3"])
def test_a_variable_without_a_positive_number_is_passed_over(monkeypatch, text):
    monkeypatch.setenv("FASTMM_NUM_THREADS", text)
    monkeypatch.setenv("OMP_NUM_THREADS", "9")
    assert resolve_threads() == 9


@pytest.mark.parametrize(
    ("cpus", "quota", "expected"), [(8, UNLIMITED, 8), (8, 2, 2), (1, 4, 1)], ids=["CPUs", "quota", "smaller"]
)
def test_without_a_wish_the_smaller_of_cpus_and_quota_decides(monkeypatch, cpus, quota, expected):
    monkeypatch.setattr(config, "_allowed_cpus", lambda: cpus)
    monkeypatch.setattr(config, "_quota", lambda: quota)
    assert resolve_threads() == expected


def test_cpus_are_those_this_process_may_use(monkeypatch):
    """Pinned to three CPUs of a larger machine, three threads; where there is no pinning, all CPUs."""
    monkeypatch.setattr(config, "_quota", lambda: UNLIMITED)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 3, 5}, raising=False)
    assert resolve_threads() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert resolve_threads() == 7


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("200000 100000\n", 2),
        ("150000 100000\n", 2),  # one and a half CPUs keep two threads busy
        ("50000 100000\n", 1),
        ("max 100000\n", UNLIMITED),
        ("", UNLIMITED),
        ("nonsense\n", UNLIMITED),
    ],
)
def test_quota_of_a_container_is_rounded_up(tmp_path, text, expected):
    file = tmp_path / "cpu.max"
    file.write_text(text)
    assert config._quota(str(file)) == expected


def test_no_control_group_means_no_quota(tmp_path):
    assert config._quota(str(tmp_path / "absent")) == UNLIMITED


def test_the_number_of_threads_changes_no_bit():
    """300 problems, so that several threads have work; 5 threads share them unevenly."""
    rng = np.random.default_rng(0)
    X, Y, v = rng.standard_normal((300, 4, 6, 5)), rng.choice([-1.0, 1.0], (300, 4)), rng.standard_normal((300, 5))
    problem = mm.Problem(X, Y, v)
    runs = [mm.descend(problem, steps=50, threads=threads).p for threads in (1, 2, 5)]
    assert runs[0].tobytes() == runs[1].tobytes() == runs[2].tobytes()
