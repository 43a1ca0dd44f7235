"""A first ``make run``: the packages installed, the kernels of core compiled, and both shown as they go."""
