"""Programs that the benchmark runs beside the peers, each a process of its own: `python -m tests.bench.tools.NAME`."""
