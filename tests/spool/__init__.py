"""The spool."""
