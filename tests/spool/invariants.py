"""What holds in every spool file at rest: the counts are those of the rows."""

from tests.spool.house import House

UNFINISHED = "status NOT IN ('sent', 'failed', 'dead', 'cancelled')"


def check(house: House) -> None:
    counted = f"""SELECT r.status, r.class, count(*) FROM recipients r JOIN messages m ON m.id = r.id >> 20
        WHERE m.damaged = '' OR NOT {UNFINISHED} GROUP BY 1, 2 ORDER BY 1, 2"""
    assert house.ask("SELECT status, class, n FROM counters WHERE n <> 0 ORDER BY 1, 2") == house.ask(counted)
    waiting = "SELECT destination, count(*) FROM recipients WHERE waiting GROUP BY 1 ORDER BY 1"
    assert house.ask("SELECT destination, waiting FROM destinations WHERE waiting <> 0 ORDER BY 1") == house.ask(waiting)
    waits = """SELECT r.id FROM recipients r JOIN messages m ON m.id = r.id >> 20
        WHERE r.waiting <> (r.status IN ('pending', 'in_doubt') AND m.damaged = '')"""
    assert house.ask(waits) == []
    of_message = "r.id BETWEEN m.id << 20 AND (m.id << 20) + 0xfffff"
    unfinished = f"""SELECT m.id FROM messages m WHERE m.unfinished <> (SELECT count(*) FROM recipients r
        WHERE {of_message} AND {UNFINISHED}) OR (m.finished_at IS NULL) <> (m.unfinished > 0)
        OR m.waiting <> (SELECT count(*) FROM recipients r WHERE {of_message} AND r.waiting)"""
    assert house.ask(unfinished) == []
    assert house.ask("SELECT id FROM recipients WHERE (finished_at IS NULL) <> (" + UNFINISHED + ")") == []
    assert house.ask("SELECT id FROM recipients WHERE id >> 20 NOT IN (SELECT id FROM messages)") == []
    assert house.ask("SELECT id FROM content WHERE id >> 20 NOT IN (SELECT id FROM messages)") == []
    damaged = "SELECT count(*) FROM messages WHERE damaged <> '' AND unfinished > 0"
    assert house.ask("SELECT coalesce(sum(n), 0) FROM tallies WHERE name = 'damaged'") == house.ask(damaged)
