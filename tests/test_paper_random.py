"""Appendix E: shares and intervals are what the scan's rows say, few instances are enough for the claims."""

import numpy as np
import pytest

import fastmm as mm
from fastmm.paper.random_instances import STEPS, WIDTHS, Share


@pytest.fixture(scope="module")
def result():
    return mm.paper.random_instances(150)


def test_claims_hold_and_the_picture_draws(result):
    assert [claim.id for claim in result.claims if not claim.accepted] == []
    assert len(result.figure().axes) == 3


def test_instances_are_the_same_every_time(result):
    """An instance does not depend on how many there are; the scan has one row for each."""
    data = result.runs["scan"]
    assert dict(data.sizes) == {"d": len(WIDTHS), "steps": len(STEPS), "trial": 150}
    fewer = mm.paper.random_instances(20, threads=1).runs["scan"]
    np.testing.assert_array_equal(fewer["correlation"], data["correlation"].isel(trial=slice(20)))


def test_shares_and_wilson_intervals():
    """4 of 10, whose interval is in the textbooks; none and all; nothing to count."""
    hits = np.arange(10) < np.array([[4], [0], [10], [4]])
    among = np.array([[True], [True], [True], [False]]) & np.ones(10, bool)
    share = Share.of(hits, among)
    np.testing.assert_allclose(share.value, [0.4, 0.0, 1.0, np.nan])
    z2 = 1.959963984540054**2
    middle, half = (0.4 + z2 / 20) / (1 + z2 / 10), np.sqrt(z2) * np.sqrt(0.024 + z2 / 400) / (1 + z2 / 10)
    np.testing.assert_allclose([share.low[0], share.high[0]], [middle - half, middle + half], rtol=1e-12)
    np.testing.assert_allclose([share.low[1], share.high[2]], [0.0, 1.0], atol=1e-15)


def test_the_number_of_instances_is_passed_on(tmp_path):
    from rich.console import Console

    report = mm.paper.main(["random_instances"], out=tmp_path, quick=True, console=Console(quiet=True), instances=60)
    assert report.results[0].runs["scan"].sizes["trial"] == 60
