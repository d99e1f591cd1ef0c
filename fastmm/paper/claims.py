"""Claim: one statement of the paper, the number expected, the number measured, and the verdict they give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

# What the letter in brackets at the end of a source means.
SOURCES = {
    "S": "stated by the paper",
    "C": "the authors' published code or its log",
    "N": "computed from the paper's exact data by plain NumPy, independently of fastmm",
    "D": "derived for fastmm; the proof stands beside the code",
}
RELATIONS = ("=", ">=", "in")


@dataclass(frozen=True)
class Claim:
    """A statement with the number that is expected and the one that was measured.

    Parameters
    ----------
    id : str
        Figure and name, such as ``"figure1a.starts"``.
    claim : str
        The statement, as a sentence.
    source : str
        Where it stands, ending with one of the letters of `SOURCES` in brackets.
    relation : {"=", ">=", "in"}
        "=" wants all entries equal to `tolerance`; ">=" wants every measured entry at least `expected`, "in" wants
        every measured entry in the interval ``expected = [low, high]``, both widened by `tolerance`.
    expected, measured : number, bool, str or nested list
    tolerance : float
        Usually half a unit of the last digit that the source prints.
    known : str
        Why the claim may fail in our setting, where the paper's own is not known. It is shown as failing all the same,
        with this reason, but does not make the whole fail.

    Examples
    --------
    >>> from fastmm.paper.claims import Claim
    >>> Claim("demo.norm", "The norm is 2.", "Table 1 [S]", "=", 2.0, 2.0004, 1e-3).ok
    True
    >>> Claim("demo.norm", "The norm is 2.", "Table 1 [S]", "=", 2.0, float("nan"), 1e-3).ok
    False
    """

    id: str
    claim: str
    source: str
    relation: str
    expected: Any
    measured: Any
    tolerance: float = 0.0
    known: str = ""

    def __post_init__(self) -> None:
        if self.relation not in RELATIONS:
            raise ValueError(f"relation: got {self.relation!r}; allowed: {', '.join(RELATIONS)}")
        object.__setattr__(self, "expected", _plain(self.expected))
        object.__setattr__(self, "measured", _plain(self.measured))

    @property
    def ok(self) -> bool:
        """Whether the measured value is what the claim says; NaN, wrong shapes and empty lists never are."""
        if isinstance(self.expected, str | bool) or isinstance(self.measured, str | bool):
            return type(self.expected) is type(self.measured) and bool(self.expected == self.measured)
        try:
            expected = np.asarray(self.expected, dtype=float)
            measured = np.asarray(self.measured, dtype=float)
        except (TypeError, ValueError):  # ragged lists or words inside lists: only "=" makes sense
            return self.relation == "=" and bool(self.expected == self.measured)
        if self.relation == "=":
            return expected.shape == measured.shape and bool(np.all(np.abs(measured - expected) <= self.tolerance))
        if measured.size == 0:
            return False
        if self.relation == ">=":
            return bool(np.all(measured >= expected - self.tolerance))
        low, high = expected
        return bool(np.all((measured >= low - self.tolerance) & (measured <= high + self.tolerance)))

    def to_dict(self) -> dict[str, Any]:
        """All fields and the verdict, as plain JSON values."""
        return {
            "id": self.id,
            "claim": self.claim,
            "source": self.source,
            "relation": self.relation,
            "expected": _jsonable(self.expected),
            "measured": _jsonable(self.measured),
            "tolerance": self.tolerance,
            "ok": self.ok,
            "known": self.known,
        }

    @property
    def accepted(self) -> bool:
        """Whether the claim holds, or fails for a known reason."""
        return self.ok or bool(self.known)

    @property
    def text(self) -> str:
        """The statement as a table shows it: with the reason when it fails for a known one."""
        return self.claim if self.ok or not self.known else f"{self.claim} Known: {self.known}"

    @property
    def expected_text(self) -> str:
        """The expected value as a table shows it."""
        if self.relation == ">=":
            return f"≥ {_text(self.expected)}"
        if self.relation == "in":
            low, high = self.expected
            return f"{_text(low)} to {_text(high)}"
        return _text(self.expected)

    @property
    def measured_text(self) -> str:
        """The measured value as a table shows it: the smallest for a lower bound, the range for an interval."""
        if self.relation == "=" or not np.size(self.measured):
            return _text(self.measured)
        low, high = float(np.min(self.measured)), float(np.max(self.measured))
        if self.relation == ">=":
            return _text(low) if np.size(self.measured) == 1 else f"{_text(low)} (least of {np.size(self.measured)})"
        return _text(low) if low == high else f"{_text(low)} to {_text(high)}"


def _plain(value: Any) -> Any:
    """Arrays and NumPy scalars as Python lists and scalars; tuples as lists."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return value


def _jsonable(value: Any) -> Any:
    """JSON has no NaN and no infinity: they are written as words."""
    if isinstance(value, list):
        return [_jsonable(entry) for entry in value]
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    return value


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return f"({', '.join(_text(entry) for entry in value)})"
    return f"{value:.7g}" if isinstance(value, float) else str(value)
