"""Decisions: values in, values out. No I/O, no clock, no randomness but what is handed in."""
