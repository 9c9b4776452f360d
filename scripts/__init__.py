"""Checks of the house that no other tool makes."""
