"""How close a run comes to the max-margin direction: fastmm against the loop as it is usually written.

Random problems of 2 inputs, 3 tokens, width 5, all runs with normalised steps of 0.1 from the origin. After each number
of steps a run is compared with the max-margin direction of the tokens it has selected. Prints a Markdown table and
draws docs/headline.png:

    python examples/headline.py            # one to two minutes of one core
    python examples/headline.py --quick    # a few seconds: fewer problems, 1000 steps
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import fastmm as mm
from fastmm.theory import correlation

INPUTS, TOKENS, WIDTH = 2, 3, 5
SEED = 2306
LR = 0.1

# Name in the table, colour and line style in the picture.
Curve = tuple[str, str, Any]
FASTMM: dict[str, Curve] = {
    "float64": ("fastmm, float64", "vermillion", "-"),
    "float32": ("fastmm, float32", "orange", (0, (4, 2))),
}
USUAL: dict[tuple[str, float], Curve] = {
    ("float64", 1e-9): ("usual loop, float64, 1e-9 added to the norm", "blue", "-"),
    ("float64", 0.0): ("usual loop, float64, nothing added", "sky", (0, (4, 2))),
    ("float32", 1e-9): ("usual loop, float32, 1e-9 added to the norm", "purple", (0, (1, 1.4))),
}


def random_problems(count: int) -> tuple[Any, Any, Any]:
    """Tokens and heads uniform on the sphere, random labels: X (count, n, T, d), Y (count, n), v (count, d)."""
    rng = np.random.default_rng(SEED)
    X = rng.standard_normal((count, INPUTS, TOKENS, WIDTH))
    v = rng.standard_normal((count, WIDTH))
    Y = rng.choice([-1.0, 1.0], size=(count, INPUTS))
    return X / np.linalg.norm(X, axis=-1, keepdims=True), Y, v / np.linalg.norm(v, axis=-1, keepdims=True)


def usual_loop(X: Any, Y: Any, v: Any, record: Any, eps: float) -> Any:
    """Normalised gradient descent as it is usually written, all problems at once; points (R, count, d)."""
    scores = np.moveaxis(Y[..., None] * (X @ v[:, None, :, None])[..., 0], 0, -1).copy()  # (n, T, count)
    X = np.moveaxis(X, 0, -1).copy()  # problems on the last axis: the arithmetic is the same, NumPy is faster
    p, lr = np.zeros_like(v.T, order="C"), np.asarray(LR, v.dtype)
    wanted, points = set(record.tolist()), []
    for step in range(int(record[-1]) + 1):
        if step in wanted:
            points.append(p.T.copy())
        logits = (X * p).sum(axis=2)
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        margins = (weights * scores).sum(axis=1, keepdims=True)
        slope = -1 / (1 + np.exp(margins))
        grad = ((slope * weights * (scores - margins))[:, :, None] * X).sum(axis=(0, 1)) / INPUTS
        norm = np.sqrt((grad * grad).sum(axis=0)) + eps
        p = p - lr * np.divide(grad, norm, out=np.zeros_like(grad), where=norm > 0)
    return np.array(points)


def median_correlation(X: Any, points: Any) -> Any:
    """For each record the median over the problems of the correlation with p_mm of the tokens selected by then."""
    medians = []
    for p in points:
        selected = np.einsum("bntd,bd->bnt", X, p).argmax(axis=-1)
        found = mm.att_svm(X, selected, throw=False)
        medians.append(np.nanmedian(correlation(p, found.w)))
    return np.array(medians)


def choose(X: Any, Y: Any, v: Any, steps: int) -> Any:
    """Problems whose run in double precision has selected one token an input, and those can be separated."""
    run = mm.descend(mm.Problem(X, Y, v), steps=steps, lr=LR)
    found = mm.att_svm(X, run.selected, throw=False)
    return (run.saturation >= 0.999) & found.optimal


def measure(count: int, steps: int, say: Callable[[str], None] = print) -> tuple[Any, dict[str, Any], int]:
    """Record steps (R,), medians (R,) of every loop by name, and the number of problems."""
    record = np.unique(np.geomspace(10, steps, 8 * (len(str(steps)) - 2) + 1).round().astype(int))
    X, Y, v = random_problems(count)
    kept = choose(X, Y, v, steps)
    X, Y, v = X[kept], Y[kept], v[kept]
    medians = {}
    for dtype, (name, _, _) in FASTMM.items():
        say(f"{name} ...")
        tokens = X.astype(dtype)
        problem = mm.Problem(tokens, Y.astype(dtype), v.astype(dtype))
        run = mm.descend(problem, steps=steps, lr=LR, record=record)
        medians[name] = median_correlation(tokens, run.history.p)
    for (dtype, eps), (name, _, _) in USUAL.items():
        say(f"{name} ...")
        tokens = X.astype(dtype)
        medians[name] = median_correlation(tokens, usual_loop(tokens, Y.astype(dtype), v.astype(dtype), record, eps))
    return record, medians, int(kept.sum())


def markdown(record: Any, medians: dict[str, Any]) -> str:
    """The medians after 10^3, 10^4, ... steps as a Markdown table."""
    powers = [k for k in range(3, 9) if 10**k in record]
    lines = [f"| loop | {' | '.join(f'10^{k} steps' for k in powers)} |", "|---" * (len(powers) + 1) + "|"]
    for name, values in medians.items():
        cells = [f"{values[np.flatnonzero(record == 10**k)[0]]:.7f}" for k in powers]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def picture(record: Any, medians: dict[str, Any], count: int) -> Any:
    """1 - median correlation against the number of steps, both axes logarithmic."""
    with mm.plot.style():
        figure = mm.plot.new_figure(7.6, 4.9)
        ax = figure.add_subplot()
        for name, color, dashes in (*FASTMM.values(), *USUAL.values()):
            mm.plot.curves(
                record,
                1 - medians[name],
                ax,
                labels=[name],
                color=mm.plot.COLORS[color],
                linestyle=dashes,
                linewidth=2.6 if name.startswith("fastmm") else 1.9,
            )
        ax.set(
            title="The usual loop stalls; the factored direction keeps converging",
            xlabel=f"normalised steps of 0.1   ({count} problems of {INPUTS} inputs, {TOKENS} tokens, width {WIDTH})",
            ylabel="1 - median correlation with the\nmax-margin direction of the selected tokens",
            xlim=(record[0], record[-1]),
        )
        figure.legend(loc="outside lower center", ncols=2, columnspacing=1.8, handlelength=2.8)
    return figure


def main() -> None:
    """Measure, print the table, draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer problems, 1000 steps")
    parser.add_argument("--out", type=Path, default=Path("docs/headline.png"), help="the picture")
    options = parser.parse_args()
    record, medians, count = measure(60 if options.quick else 200, 1000 if options.quick else 100_000)
    print(f"\nMedian correlation with the max-margin direction, {count} problems:\n")
    print(markdown(record, medians))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with mm.plot.style():
        picture(record, medians, count).savefig(options.out)
    print(f"\n{options.out}")


if __name__ == "__main__":
    main()
