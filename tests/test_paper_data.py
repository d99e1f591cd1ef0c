"""The paper's data: torch's generator without torch, and the tokens of Figure 1."""

import numpy as np
import pytest

from fastmm.paper.data import high_scores, joint_inputs, many_inputs, many_tokens, one_input, two_starts
from fastmm.paper.torch_random import TorchGenerator

# The keys of Figure 1(c), printed to six digits by an independent reading of the notebook's data.
# fmt: off
KEYS = np.reshape([
    0.774832, -0.230472, -1.086776, 1.169742, -1.063203, 0.576956,
    -1.252667, 1.069997, -0.476032, -0.252468, -0.549456, -0.770531,
    -0.386670, -0.341298, 0.688981, -0.068272, -0.849962, 0.882900,
    -0.963304, 1.277873, -0.810740, 0.831265, -0.493681, -0.598535,
    -0.412061, -0.477518, -0.411769, -0.520462, 0.942066, 0.010501,
    -0.539559, 0.706221, -1.113850, 1.183994, -0.742025, 0.704365,
    -0.594624, -0.234945, -0.609949, -0.595967, -0.713396, -0.277012,
], (3, 7, 2))
# fmt: on


def test_small_draws_are_those_of_torch():
    np.testing.assert_allclose(TorchGenerator(0).randn(3), [1.5409961, -0.2934289, -2.1787894], atol=2e-7)


def test_small_draws_continue_with_the_number_kept_from_the_last_pair():
    whole, parts = TorchGenerator(4), TorchGenerator(4)
    together = whole.randn(9)
    np.testing.assert_array_equal(np.concatenate([parts.randn(1), parts.randn(3), parts.randn(5)]), together)


def test_large_draws_give_the_tokens_of_figure_1c():
    np.testing.assert_allclose(many_tokens()[..., :2], KEYS, rtol=0, atol=1.1e-6)
    np.testing.assert_array_equal(many_tokens()[:, :, 2], np.array([[1.0] + [0.5] * 6] * 3))


def test_a_size_that_16_does_not_divide_redraws_only_the_last_16():
    long, short = TorchGenerator(7).randn(48), TorchGenerator(7).randn(40)
    np.testing.assert_array_equal(long[:24], short[:24])
    assert not np.any(long[32:40] == short[32:])


@pytest.mark.parametrize("size", [5, 16, 21, 4000])
def test_draws_are_single_precision_and_repeatable(size):
    first, again = TorchGenerator(11).randn(size), TorchGenerator(11).randn(size)
    assert first.dtype == np.float32
    np.testing.assert_array_equal(first, again)


def test_many_draws_look_normal():
    numbers = TorchGenerator(3).randn(40_000).astype(float)
    assert abs(numbers.mean()) < 0.02
    assert abs(numbers.std() - 1) < 0.02
    assert 0.672 < (np.abs(numbers) < 1).mean() < 0.693


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_a_seed_outside_its_range_is_refused(seed):
    with pytest.raises(ValueError, match="seed"):
        TorchGenerator(seed)


def test_shapes_are_filled_in_reading_order():
    np.testing.assert_array_equal(TorchGenerator(2).randn(3, 8), TorchGenerator(2).randn(24).reshape(3, 8))


@pytest.mark.parametrize(("last", "tied"), [(0.9, True), (0.0, False)])
def test_one_input_has_three_planar_keys_and_six_starts(last, tied):
    problem, starts = one_input(last)
    assert (problem.n, problem.T, problem.d_k) == (1, 3, 2)
    np.testing.assert_array_equal(problem.scores, [[1.0, 0.9, last]])
    assert (problem.scores[0, 1] == problem.scores[0, 2]) == tied
    np.testing.assert_array_equal(starts, [[0, 1], [0, 0.5], [0, 0], [0, -0.5], [0, -1], [0, -1.5]])


def test_many_inputs_has_three_inputs_whose_best_token_is_the_first():
    problem, starts = many_inputs()
    np.testing.assert_array_equal(problem.optimal, [0, 0, 0])
    np.testing.assert_array_equal(starts[:, 1], 0)


def test_tokens_of_the_other_pictures():
    """Written out here a second time, from the digest of the paper's code."""
    problem, starts = two_starts()
    np.testing.assert_array_equal(problem.X, [[(1, 0), (0, 0)], [(-2, 1), (0, 0)]])
    np.testing.assert_array_equal(problem.v, [1, 3])
    assert starts.shape == (10, 2)
    for relaxed, last in ((False, (0.5, 1.0)), (True, (0.5, 1.5))):
        joint = joint_inputs(relaxed)
        np.testing.assert_array_equal(joint.X[:, 1], [(1, 1), (1, -1), last])
        np.testing.assert_array_equal(joint.X[:, 0], 0)
        np.testing.assert_array_equal(joint.Y, [1, -1, 1])
    scores = high_scores().scores
    np.testing.assert_array_equal(scores[:, :, 0], 0)
    np.testing.assert_array_equal(scores[:, 1, 1], 1)
    np.testing.assert_array_equal(scores[:, 0, 1], [*range(1, 11), 100])
    np.testing.assert_array_equal(high_scores().K[3], [[(0, 0), (1, 1)], [(0, 0), (1, -1)]])


def test_the_formula_of_the_offsets_is_the_ratio_of_the_slopes():
    from fastmm import losses
    from fastmm.paper.loss_comparison import offset

    C = np.array([1.0, 2.5, 7.0, 30.0])
    for name in ("correlation", "logistic", "exponential"):
        slope = losses.get(name).slope
        np.testing.assert_allclose(
            offset(name, C), 0.5 * np.log(C * slope(C) / slope(np.ones(4))), rtol=1e-12, atol=1e-15
        )
