"""mta: an async, SMTP-native delivery agent.

Data flows one way, and the packages are the flow:
listener -> spool -> scheduler -> delivery -> spool -> reports -> spool.
"""

__version__ = "0.1.0"
