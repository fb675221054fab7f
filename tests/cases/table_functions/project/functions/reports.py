from datetime import date, timedelta
from pathlib import Path

from _pages import pages

from sqb import table_function


def latest():
    """The version of the report: whatever the other side says."""
    return Path("version.txt").read_text().strip()


@table_function(schema="id bigint, day date", version=latest)
def gam_report(day: str, count: int = 2):
    for page in pages(count):
        yield page, date.fromisoformat(day)


@table_function(schema="at date, amount double")
def payments(since: date):
    for number in range(3):
        yield {"at": since + timedelta(days=number), "amount": number}


@table_function("key string, seen bigint", name="counted")
class Counted:
    """Spark's own protocol, over the rows of a table."""

    def __init__(self):
        self.seen = 0

    def eval(self, row):
        self.seen += row["id"]

    def terminate(self):
        yield "sum", self.seen
