"""What is measured, by its word; the letters are issue 8's."""

from collections.abc import Mapping

from tests.bench.plan import Workload
from tests.bench.workloads import (
    accept,
    backlog,
    domains,
    encryption,
    growth,
    lanes,
    large,
    relay,
    single,
    slow,
)

SHORT = ("relay", "single")
WORKLOADS: Mapping[str, Workload] = {
    "accept": accept.run,  # W1
    "relay": relay.run,  # W2, W2d
    "single": single.run,
    "slow": slow.run,  # W3
    "domains": domains.run,  # W4
    "backlog": backlog.run,  # W5
    "large": large.run,
    "tls": encryption.run,
    "growth": growth.run,
    "lanes": lanes.run,
}
