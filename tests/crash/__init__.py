"""Crashes at each commit, disks that fail, power that is cut: the real daemon, its spool's surroundings made bad."""
