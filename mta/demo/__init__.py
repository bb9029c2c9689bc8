"""`mta demo`: the real daemon, a pretend internet around it, and the story of a few messages told as it happens."""
