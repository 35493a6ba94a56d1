"""Reports of single records that a sink cannot write, waited for before anything goes on."""

from typing import Any

from ..api import SinkContext
from ..records import SinkRecord

REPORT_TIMEOUT_S = 60.0


def report(context: SinkContext, record: SinkRecord, error: Exception) -> None:
    """Hand a record to the dead letters, and wait until it is there.

    Raise `error` where nothing is tolerated, TimeoutError after a minute.
    """
    outcome: Any = context.report(record, error)
    if hasattr(outcome, "result"):
        outcome.result(REPORT_TIMEOUT_S)
