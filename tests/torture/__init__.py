"""Never twice, never lost, under kill -9: the real daemon, killed at random while mail goes in and out, and what became of
every message. `python -m tests.torture` for as long as one likes."""
