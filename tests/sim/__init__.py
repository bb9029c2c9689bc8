"""The whole daemon in a deterministic simulation: days in seconds, the same for the same seed (docs/simulation.md).

Where to look: `scenario` is what may happen, as data; `faults` draws it from a seed; `world` plays it; `invariants` are
the promises. The daemon runs on `computer` (over `loop`, `network`, `disk`), between `programs` that submit, `persons`
with the control socket, and the `internet` with its `remote` servers and name servers (`dns`); `ledger` is what all of
them know of the mail.
"""
