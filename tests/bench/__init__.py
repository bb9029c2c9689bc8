"""What the daemon costs and bears, beside Postfix: `tests/bench/run`, or `python -m tests.bench` in the tests' venv.

Each workload is a word of the command (`workloads`), gives tables, and knows the goals of its figures. The peers (`peers`)
run in turns on one machine and one disk, each with its log at its usual level and every 250 durable, so what counts is the
ratio of one run: other work on the machine moves both figures. Load comes from and goes to processes of their own:
Postfix's smtp-source and smtp-sink, and those of `tools` for what these can't do.
"""
