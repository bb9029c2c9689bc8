"""MTA-STS policies (RFC 8461)."""

from mta.model.tls import StsPolicy


def covers(policy: StsPolicy, host: str) -> bool:
    """Whether a mail server may be used: its name is one of the patterns, where "*." stands for one label (section 4.1)."""
    label, dot, parent = host.lower().partition(".")
    return host.lower() in policy.mx or (bool(label and dot) and f"*.{parent}" in policy.mx)
