"""The paper's figures, rebuilt and checked."""

from fastmm.paper.one_input import figure1a as figure1a
from fastmm.paper.one_input import figure1b as figure1b
from fastmm.paper.many_inputs import figure1c as figure1c
