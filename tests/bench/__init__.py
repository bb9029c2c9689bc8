"""Messages per second, side by side with Postfix: `tests/bench/run`, or `python -m tests.bench` in the tests' venv.

The daemon and a private Postfix relay the same mail from smtp-source to smtp-sink (Postfix's own load tools), in turns, on
one machine and one disk, each with its log at its usual level and every 250 durable. What counts is the ratio of one run:
other work on the machine moves both figures.
"""
