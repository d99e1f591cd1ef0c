"""fastmm raced against the loops and solvers people use today; see README.md."""
