"""The spool in a process of its own: its SQL and the event loop don't wait for one interpreter lock.

`client` is the daemon's end, `server` the other one, `wire` what goes between them; the verbs are `spool.base.Spool`'s.
"""
