"""What a machine with a GPU is asked, in one go: is it right, and then how fast.

    python -m bench.gpu [--dry-run] [--budget-s 400]

Needs torch, Triton and transformers alone, and no file: the weights are random and made on the
spot, 16 GB of them in TMPDIR.  Wrong results end it before anything is timed.  After the budget
nothing more is begun; what is under way takes three minutes at most on an H200, as reckoned.
"""
