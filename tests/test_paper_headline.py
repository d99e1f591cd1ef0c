"""The headline example, in its quick form: the factored direction is ahead, and its picture is written."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

SOURCE = Path(__file__).parents[1] / "examples" / "headline.py"


@pytest.fixture(scope="module")
def headline():
    spec = importlib.util.spec_from_file_location("headline", SOURCE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def measured(headline):
    return headline.measure(40, 1000, say=lambda _: None)


def test_fastmm_is_ahead_of_every_usual_loop_after_1000_steps(headline, measured):
    _, medians, count = measured
    ours = [medians[name][-1] for name, _, _ in headline.FASTMM.values()]
    usual = [medians[name][-1] for name, _, _ in headline.USUAL.values()]
    assert count >= 20
    assert min(ours) > 0.999
    assert min(ours) > max(usual)


def test_the_usual_loop_agrees_with_fastmm_while_it_can(headline, measured):
    record, medians, _ = measured
    early = record <= 56
    first, *_ = (medians[name] for name, _, _ in headline.FASTMM.values())
    for name, _, _ in headline.USUAL.values():
        np.testing.assert_allclose(medians[name][early], first[early], atol=1e-4)


def test_the_table_and_the_picture(headline, measured, tmp_path):
    record, medians, count = measured
    table = headline.markdown(record, medians).splitlines()
    assert len(table) == 2 + len(headline.FASTMM) + len(headline.USUAL)
    assert "10^3 steps" in table[0]
    headline.picture(record, medians, count).savefig(tmp_path / "headline.png", dpi=60)
    assert (tmp_path / "headline.png").read_bytes().startswith(b"\x89PNG")
