"""The report: all its files, whole, complete and self-contained; and main, which writes it."""

import io
import json
import re
from dataclasses import replace

import pytest
from rich.console import Console

import fastmm as mm
from fastmm.paper import report as report_module
from fastmm.paper.report import claims_markdown, write_report, write_whole
from fastmm.paper.run import claims_table, main

FIELDS = {"id", "claim", "source", "expected", "measured", "tolerance", "ok", "known", "relation"}


@pytest.fixture(scope="module")
def results():
    return [mm.paper.figure1b(), mm.paper.step_rules()]


@pytest.fixture(scope="module")
def folder(results, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    write_report(results, folder)
    return folder


def broken(result):
    """The same result with its first claim expecting something else."""
    first, *rest = result.claims
    return replace(result, claims=(replace(first, measured="nothing like it"), *rest))


def test_every_file_is_there_and_no_other(folder):
    pictures = {f"{name}.{kind}" for name in ("figure1b", "step_rules") for kind in ("png", "svg", "pdf")}
    assert {path.name for path in folder.iterdir()} == pictures | {"claims.json", "claims.md", "index.html"}


def test_pictures_are_what_their_names_say(folder):
    assert (folder / "figure1b.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / "figure1b.pdf").read_bytes().startswith(b"%PDF")
    assert "<svg" in (folder / "figure1b.svg").read_text()


def test_pictures_have_at_least_150_dots_an_inch(folder):
    header = (folder / "figure1b.png").read_bytes()[16:24]
    width, height = int.from_bytes(header[:4], "big"), int.from_bytes(header[4:], "big")
    assert width >= 150 * 10
    assert height >= 150 * 5


def test_pictures_are_the_same_bytes_every_time(results, folder):
    written = (folder / "step_rules.png", folder / "step_rules.svg", folder / "step_rules.pdf")
    again = report_module.pictures(results[1], quick=False)
    assert {path.suffix[1:]: path.read_bytes() for path in written} == again


def test_claims_json_is_complete(folder, results):
    document = json.loads((folder / "claims.json").read_text())
    assert document["ok"] is True
    assert document["fastmm"] == mm.__version__
    assert [entry["id"] for entry in document["claims"]] == [c.id for r in results for c in r.claims]
    assert all(set(entry) == FIELDS for entry in document["claims"])


def test_the_page_needs_nothing_else(folder):
    page = (folder / "index.html").read_text()
    assert '<meta name="viewport"' in page
    assert page.count("data:image/png;base64,") == 2
    assert not re.search(r'(src|href)="(?!data:|https://arxiv.org)', page)
    assert "<script" not in page
    assert "<link" not in page
    assert "All 11 claims hold." in page


def test_markdown_has_one_row_a_claim(results):
    text = claims_markdown(results)
    assert text.count("| holds |") == sum(len(r.claims) for r in results)


def test_a_broken_claim_shows_everywhere(results, tmp_path):
    write_report([broken(results[0])], tmp_path, quick=True)
    assert json.loads((tmp_path / "claims.json").read_text())["ok"] is False
    assert "4 of 5 claims hold." in (tmp_path / "index.html").read_text()
    assert "| fails |" in (tmp_path / "claims.md").read_text()


def test_the_table_fits_100_columns(results):
    stream = io.StringIO()
    Console(file=stream, width=100).print(claims_table([*results, broken(results[0])]))
    lines = stream.getvalue().splitlines()
    assert max(map(len, lines)) <= 100
    assert any("FAILS" in line for line in lines)


def test_a_file_is_replaced_whole_or_left_alone(tmp_path, monkeypatch):
    path = tmp_path / "claims.json"
    write_whole(path, b"old")

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(report_module.Path, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["claims.json"]


def test_main_writes_quick_pictures_and_says_what_it_did(tmp_path):
    stream = io.StringIO()
    done = main(["figure1b"], out=tmp_path / "deep" / "report", quick=True, console=Console(file=stream, width=100))
    assert done.ok
    assert {path.name for path in done.files} == {"figure1b.png", "claims.json", "claims.md", "index.html"}
    assert all(path.exists() for path in done.files)
    assert "All 5 claims hold." in stream.getvalue()
    assert "\x1b" not in stream.getvalue()


def test_main_names_the_allowed_figures(tmp_path):
    with pytest.raises(ValueError, match=f"'figure9'; allowed: {', '.join(mm.paper.FIGURES)}"):
        main(["figure9"], out=tmp_path)


def test_every_figure_draws_without_touching_matplotlib_state():
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    few = {"random_instances": {"instances": 60}}
    figures = [figure(**few.get(name, {})).figure() for name, figure in mm.paper.FIGURES.items()]
    assert all(1 <= len(figure.axes) <= 4 and all(axes.get_title("left") for axes in figure.axes) for figure in figures)
    assert dict(mpl.rcParams) == before
