"""The report folder: pictures, the table of claims as Markdown and JSON, and one self-contained page."""

from __future__ import annotations

import base64
import html
import io
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastmm
from fastmm.paper.claims import SOURCES, Claim
from fastmm.paper.result import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Max-margin token selection, rebuilt and checked</title>
<style>
body {{ max-width: 62rem; margin: 0 auto; padding: 1.2rem; color: #22262b; background: #fff;
  font: 16px/1.55 system-ui, sans-serif; }}
h1 {{ font-size: 1.6rem; line-height: 1.25; }}
h2 {{ font-size: 1.2rem; margin: 2.4rem 0 .6rem; }}
img {{ display: block; width: 100%; height: auto; }}
figure {{ margin: 0 0 1rem; }}
figcaption, .small {{ color: #5b616a; font-size: .9rem; }}
table {{ border-collapse: collapse; width: 100%; font-size: .9rem; }}
th, td {{ text-align: left; vertical-align: top; padding: .4rem .6rem .4rem 0; border-bottom: 1px solid #e3e6ea; }}
td {{ overflow-wrap: anywhere; }}
.number {{ font-variant-numeric: tabular-nums; }}
.holds {{ color: #00664a; font-weight: 600; white-space: nowrap; }}
.fails {{ color: #a33a00; font-weight: 700; white-space: nowrap; }}
@media (max-width: 44rem) {{
  thead {{ display: none; }}
  tr {{ display: block; border-bottom: 1px solid #e3e6ea; padding: .5rem 0; }}
  td {{ display: block; border: 0; padding: .1rem 0; }}
  td[data-label]::before {{ content: attr(data-label) ": "; color: #5b616a; }}
}}
</style>
</head>
<body>
<h1>Max-Margin Token Selection in Attention Mechanism, rebuilt and checked</h1>
<p>Tarzanagh, Li, Zhang, Oymak, NeurIPS 2023 (<a href="https://arxiv.org/abs/2306.13596">arXiv 2306.13596</a>).
{summary}</p>
{sections}
<p class="small">Sources: {sources}. Made by fastmm {version} with <code>fastmm paper</code>.</p>
</body>
</html>
"""

SECTION = """<section id="{name}">
<h2>{title}</h2>
<figure>
<img src="data:image/png;base64,{picture}" alt="{title}. {caption}">
<figcaption>{caption}</figcaption>
</figure>
<table>
<thead><tr><th>The paper says</th><th>expected</th><th>measured</th><th>source</th><th>verdict</th></tr></thead>
<tbody>
{rows}
</tbody>
</table>
</section>"""

ROW = """<tr><td>{claim}</td><td class="number" data-label="expected">{expected}</td>\
<td class="number" data-label="measured">{measured}</td><td data-label="source">{source}</td>\
<td class="{verdict}">{verdict}</td></tr>"""


def write_report(results: Sequence[Result], folder: str | os.PathLike[str], quick: bool = False) -> list[Path]:
    """Write pictures, ``claims.md``, ``claims.json`` and ``index.html``, each whole or not at all.

    Parameters
    ----------
    results : sequence of Result
    folder : path-like
        Made when missing; files of the same names are replaced.
    quick : bool
        Only PNG pictures, at 100 dots per inch instead of 200.

    Returns
    -------
    list of Path
        The files written.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    contents: dict[str, bytes] = {}
    for result in results:
        contents |= {f"{result.name}.{kind}": data for kind, data in pictures(result, quick).items()}
    contents["claims.json"] = claims_json(results).encode()
    contents["claims.md"] = claims_markdown(results).encode()
    contents["index.html"] = page(results, {r.name: contents[f"{r.name}.png"] for r in results}).encode()
    for name, data in contents.items():
        write_whole(folder / name, data)
    return [folder / name for name in contents]


def pictures(result: Result, quick: bool) -> dict[str, bytes]:
    """The picture of a result in each file format: png, and unless `quick` svg and pdf; the same bytes every time."""
    from fastmm import plot

    figure = result.figure()
    undated: dict[str, dict[str, Any]] = {
        "png": {"Software": None},
        "svg": {"Date": None},
        "pdf": {"CreationDate": None},
    }
    with plot.style():
        kinds = ("png",) if quick else ("png", "svg", "pdf")
        return {kind: _saved(figure, kind, 100 if quick else 200, undated[kind]) for kind in kinds}


def _saved(figure: Figure, kind: str, dpi: int, metadata: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=dpi, metadata=metadata)
    return buffer.getvalue()


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that a reader sees the old content or the new, never a part."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def claims_json(results: Sequence[Result]) -> str:
    """All claims with their verdicts as a JSON document."""
    claims = _claims(results)
    document = {
        "fastmm": fastmm.__version__,
        "ok": all(claim.accepted for claim in claims),
        "sources": SOURCES,
        "claims": [claim.to_dict() for claim in claims],
    }
    return json.dumps(document, indent=2, allow_nan=False, ensure_ascii=False) + "\n"


def claims_markdown(results: Sequence[Result]) -> str:
    """All claims as Markdown tables, one a figure."""
    lines = ["# The paper's claims, measured", "", summary(results), ""]
    for result in results:
        lines += [f"## {result.title}", "", f"![{result.title}]({result.name}.png)", "", result.caption, ""]
        lines += ["| the paper says | expected | measured | source | verdict |", "|---|---|---|---|---|"]
        for claim in result.claims:
            cells = (claim.text, claim.expected_text, claim.measured_text, claim.source, verdict(claim))
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        lines.append("")
    lines += [f"Sources: {_sources()}.", ""]
    return "\n".join(lines)


def page(results: Sequence[Result], images: dict[str, bytes]) -> str:
    """One HTML page with everything in it: it can be sent by mail and read on a phone."""
    sections = []
    for result in results:
        rows = [
            ROW.format(
                claim=html.escape(claim.text),
                expected=html.escape(claim.expected_text),
                measured=html.escape(claim.measured_text),
                source=html.escape(claim.source),
                verdict=verdict(claim),
            )
            for claim in result.claims
        ]
        picture = base64.b64encode(images[result.name]).decode()
        title, caption = html.escape(result.title), html.escape(result.caption)
        sections.append(
            SECTION.format(name=result.name, title=title, caption=caption, picture=picture, rows="\n".join(rows))
        )
    return PAGE.format(
        summary=html.escape(summary(results)),
        sections="\n".join(sections),
        sources=html.escape(_sources()),
        version=html.escape(fastmm.__version__),
    )


def summary(results: Sequence[Result]) -> str:
    """How many claims hold, in a sentence."""
    claims = _claims(results)
    good = sum(claim.ok for claim in claims)
    if good == len(claims):
        return f"All {good} claims hold."
    known = sum(claim.accepted for claim in claims) - good
    reasons = f", {known} fail for known reasons" if known else ""
    return f"{good} of {len(claims)} claims hold{reasons}."


def verdict(claim: Claim) -> str:
    """ "holds" or "fails"."""
    return "holds" if claim.ok else "fails"


def _claims(results: Sequence[Result]) -> list[Claim]:
    return [claim for result in results for claim in result.claims]


def _sources() -> str:
    return "; ".join(f"[{letter}] {meaning}" for letter, meaning in SOURCES.items())
