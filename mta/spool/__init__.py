"""The spool: the only SQL, and the only truth. What is not in it does not exist."""
