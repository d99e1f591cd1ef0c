"""The command line: `fastmm paper`, `fastmm solve`, `fastmm scan`, `fastmm info`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import fastmm
from fastmm.errors import FastmmError, Status

app = typer.Typer(
    help="The fast, certified laboratory for max-margin attention.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Entry point of the `fastmm` command."""
    app(prog_name="fastmm")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fastmm {fastmm.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """The fast, certified laboratory for max-margin attention."""


@app.command()
def paper(
    figures: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FIGURE]...",
            help="figure1a, figure1b, figure1c, two_starts, figure3a, figure3b, figure3c, step_rules, "
            "loss_comparison, basin_maps, basin_rules, random_instances; all by default.",
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of the report.")] = Path("report"),
    theorems: Annotated[
        bool, typer.Option("--theorems", help="The witnesses of the lemmas and theorems, besides the figures named.")
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="Small PNG pictures and few random instances; every claim is checked.")
    ] = False,
    instances: Annotated[
        int | None, typer.Option(min=1, help="Random instances a cell; 10,000 by default, 200 with --quick.")
    ] = None,
) -> None:
    """Rebuild figures, check what the paper says, write a report; exit status 1 when a claim fails unexpectedly."""
    from fastmm import paper as house

    for name in figures or []:
        known = [*house.FIGURES, *house.THEOREMS]
        if name not in known:
            raise typer.BadParameter(f"no figure {name!r}; allowed: {', '.join(known)}", param_hint="FIGURE")
    chosen = [*(figures or []), *(house.THEOREMS if theorems else [])]
    try:
        report = house.main(chosen, out=out, quick=quick, instances=instances)
    except OSError as error:
        _refuse(f"--out {out}: {error.strerror or error}")
    if not report.ok:
        raise typer.Exit(1)


@app.command()
def info() -> None:
    """Print versions, build, threads and instruction set: what a bug report needs."""
    from rich.console import Console

    from fastmm.info import info as facts

    Console(soft_wrap=True).print(_pairs(facts()))


@app.command()
def solve(
    file: Annotated[Path, typer.Argument(metavar="FILE.npz", help="Arrays written by numpy.savez.")],
) -> None:
    """Solve a max-margin program and print its certificate; exit status 1 when there is no certified answer.

    FILE.npz has K and selected; or X, Y, v with K, W, lengths, selected as wanted (by default the tokens with the
    best scores are selected); or A, b with E, e as wanted, for min 1/2||w||^2 s.t. A w >= b, E w = e.
    """
    from rich.console import Console

    try:
        result = _solve(_read(file))
    except (ValueError, TypeError, FastmmError) as error:
        _refuse(f"{file}: {error}")
    Console(soft_wrap=True).print(_pairs(_described(result)))
    if not _all(result.optimal):
        raise typer.Exit(1)


@app.command()
def scan(
    config: Annotated[Path, typer.Argument(metavar="CONFIG.toml", help="Task, grid, trials, seed and store.")],
    resume: Annotated[bool, typer.Option("--resume", help="Continue the store if it is there.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Compute a small sample; estimate time and size.")] = False,
) -> None:
    """Run a scan into a Zarr store and print a table of it; exit status 130 after Ctrl-C, when --resume goes on.

    CONFIG.toml has task ("converge" or "module:function"), trials, seed, store, and a table [grid] whose lists are the
    dimensions; chunk and threads as wanted.
    """
    import json

    from rich.console import Console

    from fastmm import scans
    from fastmm.scans.config_file import read_config
    from fastmm.scans.seeing import sizes, table

    screen = Console(soft_wrap=True)
    try:
        arguments = read_config(config)
        if dry_run:
            del arguments["store"]
            screen.print(_pairs(sizes(scans.estimate(**arguments))))
            return
        data = fastmm.scan(**arguments, resume=resume)
    except (ValueError, TypeError, RuntimeError, ImportError, OSError) as error:
        _refuse(f"{config}: {error}")
    screen.print(table(scans.summarise(data)))
    for text, seen in json.loads(data.attrs["errors"]).items():
        typer.echo(f"{seen['count']} failed, first at {tuple(seen['first'])}: {text}", err=True)
    if not data.attrs["complete"]:
        typer.echo(f"interrupted; continue with: fastmm scan {config} --resume", err=True)
        raise typer.Exit(130)


def _refuse(message: str) -> Any:
    typer.echo(f"error: {message}", err=True)
    raise typer.Exit(2)


def _read(file: Path) -> dict[str, Any]:
    import zipfile

    import numpy as np

    try:
        with np.load(file, allow_pickle=False) as archive:
            if not hasattr(archive, "files"):
                raise ValueError("is a single array; allowed: an archive written by numpy.savez")
            return {name: archive[name] for name in archive.files}
    except OSError as error:
        raise ValueError(error.strerror or str(error)) from error
    except (zipfile.BadZipFile, EOFError, ValueError) as error:
        raise ValueError(f"cannot be read as an .npz archive of plain arrays ({error})") from error


def _solve(arrays: dict[str, Any]) -> Any:
    import fastmm as mm

    sets = {"A": ({"A", "b"}, {"E", "e"}), "X": ({"X", "Y", "v"}, {"K", "W", "lengths", "selected"})}
    needed, more = sets["A"] if "A" in arrays else sets["X"] if "X" in arrays else ({"K", "selected"}, {"lengths"})
    missing, unknown = sorted(needed - set(arrays)), sorted(set(arrays) - needed - more)
    if missing or unknown:
        told = [f"lacks {', '.join(missing)}"] * bool(missing) + [f"has unknown {', '.join(unknown)}"] * bool(unknown)
        raise ValueError(
            f"{' and '.join(told)}; allowed: K, selected [lengths]; X, Y, v [K, W, lengths, selected]; A, b [E, e]"
        )
    if "A" in arrays:
        return mm.min_norm(**arrays, throw=False)
    selected = arrays.pop("selected", None)
    if "X" not in arrays:
        return mm.att_svm(arrays["K"], selected, lengths=arrays.get("lengths"), throw=False)
    problem = mm.Problem(**arrays)
    selected = problem.optimal if selected is None else selected
    return mm.att_svm(problem.K, selected, lengths=problem.lengths, throw=False)


def _described(result: Any) -> dict[str, str]:
    """The lines of the certificate; for a batch, counts and the worst residuals."""
    import numpy as np

    certificate = result.certificate
    residuals = {
        "constraints": f"violated by at most {_worst(certificate.primal)}",
        "stationarity": f"off by at most {_worst(certificate.stationarity)}",
        "duality gap": f"at most {_worst(certificate.gap)}",
    }
    if np.ndim(result.optimal):
        statuses = np.asarray(result.status)
        counts = {s.name: int((statuses == s).sum()) for s in Status}
        told = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
        return {"problems": f"{statuses.size}: {told}"} | residuals
    status = Status(int(result.status))
    lines = {"status": f"{status.name}. {status.advice}"}
    if result.optimal:
        w = np.asarray(result.w)
        lines |= {
            "w": np.array2string(w, precision=7, max_line_width=76, threshold=24),
            "norm": f"{float(np.linalg.norm(w)):.9g}",
            "margin": f"{float(result.margin):.9g}",
            "neighbours": f"{int(np.sum(result.neighbors))} at the margin",
        }
    return lines | residuals


def _worst(values: Any) -> str:
    import numpy as np

    finite = np.asarray(values, dtype=float)
    finite = finite[np.isfinite(finite)]
    return f"{finite.max():.1e}" if finite.size else "-"


def _all(values: Any) -> bool:
    import numpy as np

    return bool(np.all(values))


def _pairs(lines: dict[str, str]) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for name, text in lines.items():
        table.add_row(Text(name, style="bold"), Text(text))
    return table


if __name__ == "__main__":
    main()
