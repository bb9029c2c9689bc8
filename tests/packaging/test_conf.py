"""conf/mta.toml says what holds without it."""

import re
from pathlib import Path

from mta.config.describe import effective
from mta.config.load import load

CONF = Path(__file__).parents[2] / "conf" / "mta.toml"
ENVIRON = {"HOME": "/home/ann"}
WITHOUT_DEFAULT = {"hostname", "postmaster", "spool.url", "control.socket", "alerts.webhook"} | {
    "submission.tls.certificate",
    "submission.tls.key",
    "submission.users_file",
}
"""What stands there is an example."""


def test_as_it_stands_it_changes_nothing() -> None:
    assert load(CONF, ENVIRON) == load(None, ENVIRON)


def test_uncommented_it_states_every_default_and_no_other_key(tmp_path: Path) -> None:
    whole = tmp_path / "mta.toml"
    whole.write_text(re.sub(r"(?m)^#(?=\S)", "", CONF.read_text()))
    stated = {key: words for key, words in effective(load(whole, ENVIRON)) if not key.startswith("aliases")}
    defaults = {key: words for key, words in effective(load(None, ENVIRON)) if key != "aliases"}
    assert {key for key, words in stated.items() if words != defaults[key]} == WITHOUT_DEFAULT
    named = set(re.findall(r"(?m)^#([a-z_]+) = ", CONF.read_text()))
    assert named >= {key.rpartition(".")[2] for key in defaults}


def test_every_key_s_meaning_stands_above_it() -> None:
    first_class = CONF.read_text().split("[class.normal]")[0]
    meanings = {key: meaning for meaning, key in re.findall(r"(?m)^(.*)\n#([a-z_]+) = ", first_class)}
    del meanings["root"]  # an example: the table itself is explained
    assert all(meaning.startswith("# ") for meaning in meanings.values())
