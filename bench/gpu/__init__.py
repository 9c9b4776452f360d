"""What a machine with a GPU is asked, in one go: is it right, and then how fast.

    python -m bench.gpu [--dry-run]

Needs the packages of `engine` and `kernels` alone, and no file: the weights are random and made on
the spot.  Wrong results end it before anything is timed.
"""
