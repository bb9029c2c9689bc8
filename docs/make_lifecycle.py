"""Writes docs/lifecycle.md from the table in code (mta/model/lifecycle.py): `python docs/make_lifecycle.py`.

A test fails while the page and the table differ."""

from pathlib import Path

from mta.model.lifecycle import (
    COMMITS,
    CRASHES,
    FINISHED,
    NEEDS_DOUBT,
    NO_EFFECT,
    RESTORING,
    STORED,
    TRANSITIONS,
    Event,
    Status,
)

MEANING = {
    Status.PENDING: "waiting or due",
    Status.SENDING: "claimed by a running daemon; not on disk: a crash makes it what it was",
    Status.IN_DOUBT: "the final dot may have been sent, its reply is not known",
    Status.SENT: "a server took responsibility (2yz to the final dot)",
    Status.FAILED: "permanent failure; sender and postmaster are told",
    Status.DEAD: "given up; sender and postmaster are told",
    Status.HELD: "kept from being sent by a person",
    Status.CANCELLED: "ended by a person, without a bounce",
}

RESTORED = {Event.RELEASE: "as before `hold`", Event.UNMARKED: "as before the mark"}

HEAD = """# The life of a recipient

Made from `mta/model/lifecycle.py` by `python docs/make_lifecycle.py`; do not edit. Status is kept per recipient. What is
not in these tables does not happen: the spool refuses it.

"""


def page() -> str:
    parts = [HEAD, "## Statuses\n\n", _statuses(), "\n## Transitions\n\n", _diagram(), "\n", _transitions()]
    parts += ["\n## Commits\n\n", _commits(), "\n## Crashes\n\n", _crashes()]
    return "".join(parts)


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def _statuses() -> str:
    rows = [
        (f"`{it}`", MEANING[it], "yes" if it in STORED else "no", "yes" if it in FINISHED else "no") for it in Status
    ]
    return _table(("status", "meaning", "durable", "finished"), rows)


def _diagram() -> str:
    edges = "".join(f"    {a} --> {b}: {event.value}\n" for (a, event), b in TRANSITIONS.items() if a != b)
    back = "".join(f"    held --> {it}: release\n" for it in (Status.PENDING, Status.IN_DOUBT))
    back += "    in_doubt --> pending: unmarked\n"
    return f"```mermaid\nstateDiagram-v2\n    [*] --> pending: accept\n{edges}{back}```\n"


def _transitions() -> str:
    rows = [(f"`{it}`", *(_cell(it, event) for event in Event)) for it in STORED]
    return _table(("status", *(f"`{event}`" for event in Event)), rows)


def _cell(status: Status, event: Event) -> str:
    if event in RESTORING:
        return RESTORED[event] if status is RESTORING[event] else "-"
    if (status, event) in NO_EFFECT:
        return "(nothing)"
    following = TRANSITIONS.get((status, event))
    if following is None:
        return "-"
    return f"`{following}`" + (", with a doubt" if (status, event) in NEEDS_DOUBT else "")


def _commits() -> str:
    rows = [("-> `pending`", "`accept`")]
    rows += [(f"`{event}`", ", ".join(f"`{it}`" for it in verbs.split(", "))) for event, verbs in COMMITS.items()]
    return _table(("event", "durable with the commit of"), rows)


def _crashes() -> str:
    return _table(("the daemon dies", "on disk", "the next start"), [tuple(row) for row in CRASHES])


if __name__ == "__main__":
    Path(__file__).with_name("lifecycle.md").write_text(page())
