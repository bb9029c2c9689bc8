"""From the configuration to what the parts are told."""

from pathlib import Path

import pytest

from mta.app import settings
from mta.config.load import load
from mta.config.model import Config
from mta.model.envelope import MailClass
from mta.policy.lanes import LaneRules

WHOLE = """
hostname = "mail.example.com"
[submission]
max_hold = "7d"
deliver_by = "handover"
[class.urgent]
deadline = "5m"
[lanes]
urgent_reserve = 0.5
bulk_share = 0.25
"""


@pytest.fixture
def config(tmp_path: Path) -> Config:
    path = tmp_path / "mta.toml"
    path.write_text(WHOLE)
    return load(path, {"HOME": "/home/ann"})


def test_lanes_deadlines_and_holds_reach_who_keeps_them(config: Config) -> None:
    listener = settings.listener(config)
    assert (listener.max_hold, listener.strict_deliver_by) == (7 * 86400, False)
    assert listener.schedules[MailClass.URGENT].deadline == 300
    assert settings.scheduler(config).lanes == LaneRules(urgent_reserve=0.5, bulk_share=0.25)


def test_without_them_the_interface_s_defaults_hold() -> None:
    config = load(None, {"HOME": "/home/ann"}).model_copy(update={"hostname": "mail.example.com"})
    listener = settings.listener(config)
    assert (listener.max_hold, listener.strict_deliver_by) == (60 * 86400, True)
    assert settings.scheduler(config).lanes == LaneRules()
