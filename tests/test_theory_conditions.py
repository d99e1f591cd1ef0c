"""Conditions of the theorems: where they hold, where they do not, and the numbers that say so."""

from __future__ import annotations

import numpy as np
import pytest

import fastmm as mm
from fastmm.paper.data import many_inputs, one_input, two_starts


def test_losses_of_the_paper_satisfy_assumption_a():
    logistic = mm.theory.assumption_a("logistic", 3.0)
    assert logistic
    np.testing.assert_allclose(logistic.numbers["M1"], 1 / (1 + np.exp(-3.0)), rtol=1e-14)
    np.testing.assert_allclose(logistic.numbers["least_slope"], 1 / (1 + np.exp(3.0)), rtol=1e-14)
    exponential = mm.theory.assumption_a("exponential", 2.0)
    np.testing.assert_allclose([exponential.numbers["M0"], exponential.numbers["M1"]], np.exp(2.0), rtol=1e-14)
    linear = mm.theory.assumption_a("correlation", 7.0)
    assert linear
    assert linear.numbers == {"M1": 1.0, "M0": 0.0, "least_slope": 1.0}


def test_a_slope_that_underflows_is_not_strict():
    assert not mm.theory.assumption_a("exponential", 800.0)


def test_assumption_b_holds_for_equal_scores_only():
    """Figure 1(a) and (c) and all problems of two tokens satisfy it; Figure 1(b) does not."""
    assert mm.theory.assumption_b(one_input(0.9).problem)
    assert mm.theory.assumption_b(two_starts().problem)
    same = mm.theory.assumption_b(many_inputs().problem)
    assert same
    assert same.numbers == {"spread": 0.0, "gap": 0.5}
    other = mm.theory.assumption_b(one_input(0.0).problem)
    assert not other
    np.testing.assert_allclose([other.numbers["spread"], other.numbers["gap"]], [0.9, 0.1], rtol=1e-12)


def test_assumption_b_wants_a_best_token_and_skips_padding():
    tied = mm.theory.assumption_b(mm.Problem([[[1.0], [1.0], [0.0]]], [1.0], [1.0]))
    assert not tied
    assert tied.numbers["gap"] == 0
    ragged = mm.Problem([[[2.0], [1.0], [np.nan]], [[3.0], [np.nan], [np.nan]]], [1.0, 1.0], [1.0], lengths=[2, 1])
    found = mm.theory.assumption_b(ragged)
    assert found
    assert found.numbers == {"spread": 0.0, "gap": 1.0}
    assert mm.theory.assumption_b(mm.Problem([[[1.0]]], [1.0], [1.0])).numbers["gap"] == np.inf


def test_general_position_counts_the_rows_on_the_margin():
    found = mm.theory.general_position(many_inputs().problem, [0, 0, 0])
    assert found
    assert (found.numbers["rows"], found.numbers["rank"]) == (2, 2)
    twice = mm.Problem([[[1.0, 0.0], [0.0, 0.0]], [[1.0, 0.0], [0.0, 0.0]]], [1.0, 1.0], [1.0, 0.0])
    double = mm.theory.general_position(twice, [0, 0])
    assert not double
    assert (double.numbers["rows"], double.numbers["rank"]) == (2, 1)
    line = mm.theory.general_position(mm.Problem([[[1.0], [0.0], [0.0]]], [1.0], [1.0]), [0])
    assert not line
    assert line.numbers["least"] == 0
    alone = mm.theory.general_position(mm.Problem([[[1.0]]], [1.0], [1.0]), [0])
    assert alone
    assert alone.numbers == {"rows": 0.0, "rank": 0.0, "least": np.inf}


def test_bad_arguments_are_named():
    batch = mm.Problem(np.ones((2, 1, 2, 2)), [1.0], [1.0, 0.0])
    for check in (mm.theory.assumption_b, lambda problem: mm.theory.general_position(problem, [0])):
        with pytest.raises(TypeError, match="problem: got int; allowed: a Problem"):
            check(1)
        with pytest.raises(ValueError, match=r"problem: got a batch of shape \(2,\); allowed: one problem"):
            check(batch)
    inner = mm.Problem([[[1.0], [0.0], [-1.0]]], [1.0], [1.0])
    with pytest.raises(ValueError, match=r"selected: got \[1\], which cannot be separated"):
        mm.theory.general_position(inner, [1])
    with pytest.raises(ValueError, match=r"selected: got shape \(2, 1\); allowed: \(n,\)"):
        mm.theory.general_position(inner, [[0], [1]])
    for bound in (0, -1.0, np.inf, "wide", True):
        with pytest.raises(ValueError, match=r"bound: got .*; allowed: a positive finite number"):
            mm.theory.assumption_a("logistic", bound)
    with pytest.raises(ValueError, match="hinge"):
        mm.theory.assumption_a("hinge", 1.0)
