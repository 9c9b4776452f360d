"""Benchmarks.  Each checks what was computed before it reports, and prints one line of JSON.

`bench/NOTES.md` says how figures are taken, and has those of each version.
"""
