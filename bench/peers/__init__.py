"""Other engines on the same workloads, each run in an environment of its own: see README.md.

Nothing here imports more of ours than it can without our dependencies.
"""
