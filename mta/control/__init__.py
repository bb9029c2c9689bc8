"""The control socket: one line in, one answer out; what a person asks and orders, for both of its ends."""
