"""What a person sees of a scan: statistics, the table, pictures, progress, the command line."""

import json

import numpy as np
import pytest
from scan_helpers import GRID, same, small
from typer.testing import CliRunner

import fastmm as mm
from fastmm.cli import app
from fastmm.scans.statistics import LEVELS, QUANTILE_ERROR, STATISTICS, Accumulator

xr = pytest.importorskip("xarray")

CONFIG = """
task = "converge"
trials = {trials}
seed = 5
store = "out.zarr"
[grid]
n = 2
T = 3
d = [2, 4]
steps = {steps}
generator = ["sphere", {{name = "mixture", noise = 0.5}}]
"""


@pytest.fixture
def invoke(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    return lambda *arguments: CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def config(tmp_path):
    def write(text=CONFIG, trials=20, steps=50):
        (tmp_path / "scan.toml").write_text(text.format(trials=trials, steps=steps))
        return tmp_path / "scan.toml"

    return write


def one(accumulator, share=False):
    return dict(zip(STATISTICS, accumulator.statistics(share), strict=True))


@pytest.mark.parametrize("scale", [1.0, 1e-300, 1e150, 3e-320])
def test_statistics_are_those_of_all_values_at_once(scale):
    """Against NumPy in extended precision; quantiles within their stated error."""
    x = np.random.default_rng(0).standard_normal(5000) * scale
    got = Accumulator()
    for part in np.array_split(x, 7):
        got.add(part)
    found = one(got)
    wide = x.astype(np.longdouble)
    assert found["count"] == 5000
    assert found["mean"] == pytest.approx(float(wide.mean()), rel=1e-13)
    assert found["std"] == pytest.approx(float(wide.std(ddof=1)), rel=1e-13)
    assert (found["min"], found["max"]) == (x.min(), x.max())
    half = 1.960439 * found["std"] / np.sqrt(5000)  # Student's quantile for 4999 degrees of freedom
    assert found["high"] - found["mean"] == pytest.approx(half, rel=1e-5, abs=1e-322)
    for level in LEVELS:
        want = np.quantile(x, level, method="nearest")
        assert found[f"q{round(100 * level):02d}"] == pytest.approx(want, rel=QUANTILE_ERROR, abs=2.0**-1030)


def test_order_and_pieces_leave_every_bit_of_the_statistics():
    x = np.random.default_rng(1).standard_normal(1000) * 10.0 ** np.sqrt(np.arange(1000))
    a, b = Accumulator(), Accumulator()
    a.add(x)
    for value in x[::-1]:
        b.add([value])
    assert a.statistics(False) == b.statistics(False)


def test_a_mean_that_cancels_is_exact():
    got = Accumulator()
    got.add([1e300, 1.0, -1e300])
    assert one(got)["mean"] == 1 / 3


def test_quantiles_near_one_are_resolved_there():
    x = 1 - 10.0 ** -np.linspace(1, 12, 101)
    got = Accumulator(near=1.0)
    got.add(x)
    assert 1 - one(got)["q50"] == pytest.approx(1 - x[50], rel=2 * QUANTILE_ERROR)


def test_infinities_nan_and_no_values():
    got = Accumulator()
    assert np.isnan(one(got)["mean"])
    got.add([np.nan, 1.0, np.inf, 2.0])
    found = one(got)
    assert (found["count"], found["mean"], found["max"], found["q50"]) == (
        3,
        np.inf,
        np.inf,
        pytest.approx(2, rel=0.01),
    )


def test_shares_have_wilsons_interval():
    """8 of 10: 0.4902 to 0.9433 (Wilson 1927's formula, worked out by hand to four digits)."""
    got = Accumulator()
    got.add([1] * 8 + [0] * 2)
    found = one(got, share=True)
    assert found["mean"] == 0.8
    assert (found["low"], found["high"]) == (pytest.approx(0.4902, abs=1e-4), pytest.approx(0.9433, abs=1e-4))


def test_reduced_scans_equal_the_statistics_of_the_rows():
    rows = mm.scans.summarise(small())
    assert same(rows, small(reduce=True, chunk=4))
    data = small()
    assert rows.norm.sel(statistic="mean").values == pytest.approx(data.norm.mean("trial").values, rel=1e-14)
    assert (rows.outcomes.sum("outcome") == 23).all()


def test_pictures_show_the_numbers():
    data = mm.scan("converge", {"n": [2, 3], "T": 3, "d": [2, 4, 8], "steps": 50}, 9, 0, progress=False)
    ax = mm.plot.scan(data, "globally_optimal", x="d", hue="n")
    for k, line in enumerate(ax.lines):
        assert line.get_xdata().tolist() == [2, 4, 8]
        assert line.get_ydata() == pytest.approx(data.globally_optimal.mean("trial").values[k])
    assert len(ax.collections) == 2
    heat = mm.plot.scan(data, "norm")
    assert np.asarray(heat.images[0].get_array()) == pytest.approx(data.norm.mean("trial").values.T)
    assert (heat.get_xlabel(), heat.get_ylabel()) == ("n", "d")
    assert mm.plot.scan(data.sel(n=2), "correlation", statistic="median").get_xlabel() == "d"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("colour",), "variable: got 'colour'"),
        (("norm", "d"), "each axis of the grid once"),
        (("norm", "d", "d"), "each axis of the grid once"),
    ],
)
def test_pictures_tell_what_they_cannot_show(arguments, told):
    data = mm.scan("converge", {"n": [2, 3], "T": 3, "d": [2, 4], "steps": 5}, 2, 0, progress=False)
    with pytest.raises(ValueError, match=told):
        mm.plot.scan(data, *arguments)


def test_progress_is_shown(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    mm.scan("converge", GRID, 5, 0)
    shown = capsys.readouterr().out
    assert "20/20" in shown
    assert "0 failed" in shown


def test_the_command_runs_resumes_and_refuses(invoke, config, tmp_path):
    done = invoke("scan", config(trials=10))
    assert done.exit_code == 0, done.output
    assert "mixture(noise=0.5)" in done.output
    assert "globally optimal" in done.output
    assert "exists" in invoke("scan", config(trials=20)).output
    assert invoke("scan", config(trials=20), "--resume").exit_code == 0
    assert xr.open_zarr(tmp_path / "out.zarr").sizes["trial"] == 20
    refused = invoke("scan", config(trials=20, steps=51), "--resume")
    assert refused.exit_code == 2
    assert "steps: the store has 50, this call has 51" in refused.output


def test_the_dry_run_measures_and_writes_nothing(invoke, config, tmp_path):
    done = invoke("scan", config(trials=10**6), "--dry-run")
    assert done.exit_code == 0, done.output
    assert "4000000" in done.output
    assert "MiB" in done.output
    assert not (tmp_path / "out.zarr").exists()


def test_the_estimate_of_the_size_is_the_stores(config, tmp_path):
    grid = {"n": 2, "T": 3, "d": [2, 4], "steps": 5}
    size = mm.scans.estimate("converge", grid, 500, 0, chunk=100).size
    mm.scan("converge", grid, 500, 0, store=tmp_path / "s.zarr", chunk=100, progress=False)
    written = sum(path.stat().st_size for path in tmp_path.rglob("c/*/*") if path.is_file())
    assert written == size


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("task = 'converge'", "lacks grid"),
        (CONFIG + "colour = 1", "'colour'; allowed"),
        ("colour = 1\n" + CONFIG, "has unknown colour"),
        (CONFIG.replace('"converge"', '"nothing:here"'), "task: got 'nothing:here'"),
        (CONFIG.replace("noise", "colour"), "mixture does not take"),
        ("[", "is no TOML"),
    ],
)
def test_the_command_tells_what_is_wrong_with_the_file(invoke, config, text, told):
    done = invoke("scan", config(text))
    assert done.exit_code == 2
    assert told in done.output
    assert "Traceback" not in done.output


def test_the_command_takes_functions_next_to_the_file(invoke, config, tmp_path):
    (tmp_path / "my_scan_task.py").write_text("def double(rng, k):\n    return 2.0 * k\n")
    text = 'task = "my_scan_task:double"\ntrials = 2\nseed = 0\nstore = "out.zarr"\n[grid]\nk = [1, 2]\n'
    assert invoke("scan", config(text)).exit_code == 0
    data = xr.open_zarr(tmp_path / "out.zarr")
    assert data.value.values.tolist() == [[2.0, 2.0], [4.0, 4.0]]
    assert json.loads(data.attrs["settings"])["task"].startswith("my_scan_task:double#")
