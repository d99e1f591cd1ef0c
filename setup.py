"""In-place builds for work on the C++: `python setup.py build_ext --inplace`. pip reads pyproject.toml instead."""

from scikit_build_core.setuptools.wrapper import setup

setup(cmake_source_dir=".", packages=["fastmm"])
