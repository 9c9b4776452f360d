"""Why a benchmark prints no figure.

BenchFailed
├── WorkloadUnavailable   there is no such workload, or this machine cannot make it
├── OutputsDiffer         what was computed is not what the reference computes
├── OutputIncomplete      a batch's files are not what they must be, or a job failed
└── StackFailed           the API did not answer, or refused

Each message is one sentence for a person.
"""


class BenchFailed(Exception):
    """The benchmark ends without a figure."""


class WorkloadUnavailable(BenchFailed):
    """Nothing to run."""


class OutputsDiffer(BenchFailed):
    """A figure for wrong tokens would be worth nothing."""


class OutputIncomplete(BenchFailed):
    """A figure for lost lines would be worth nothing."""


class StackFailed(BenchFailed):
    """What is measured does not work."""
