"""Exactly once: each task prepares its own transaction, and the driver commits all of a batch.

A task never makes its rows visible, because Spark may run it twice and decides afterwards which
attempt counts. The commit is one atomic step at the broker, keyed by group and batch: a commit that
is repeated after a crash does nothing. This module names groups, runs and transactions, and does
the work of task and driver; rows.py turns rows into records.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from ..client.errors import AdminError, UnsupportedVersion
from ..client.group_types import PreparedTransaction
from ..protocol.commit_groups import member_id
from ..protocol.errors import ApiError, ErrorCode
from .ledger import Ledger
from .refused_rows import dead_letters_of
from .rows import RowWriter
from .sink_clients import (
    ABORT_MS,
    ExactlyOnceError,
    SinkClients,
    out_of_the_past,
    sink_clients_for,
)
from .sink_options import Fallback, SinkOptions

log = logging.getLogger(__name__)

# These properties are no public API of Spark, but its own sources rely on them. `Job.of_stream`
# refuses to go on without them.
QUERY_ID: Final = "sql.streaming.queryId"
RUN_ID: Final = "spark.jobGroup.id"


class Task(NamedTuple):
    """The labels that Spark gives a task. Correctness depends on the commit, not on the labels."""

    partition: int
    attempt: int
    query_id: str | None
    """The id of the query, kept over restarts from a checkpoint; None in a batch job."""
    run_id: str | None
    """The id of one start of the query."""

    @classmethod
    def current(cls) -> Self:
        """Ask Spark for the labels of the running task; raise ExactlyOnceError outside a task."""
        context = TaskContext.get()
        if context is None:
            raise ExactlyOnceError("exactly_once writes in a task of Spark, and this is none")
        query_id = context.getLocalProperty(QUERY_ID)
        run_id = context.getLocalProperty(RUN_ID) if query_id is not None else None
        return cls(context.partitionId(), context.attemptNumber(), query_id, run_id)


class Job(NamedTuple):
    """The names under which a job's transactions are committed."""

    group: str
    """The name of the sink. A second commit of the same batch in this group does nothing."""
    run: str
    """The id of one run; a newer run of the group fences older ones."""
    write: str = ""
    """The id of a batch job, as several jobs of a run may try the same batch; empty in a stream."""

    @classmethod
    def of_stream(cls, options: SinkOptions, task: Task) -> Self:
        """Name the group after the query id: a new checkpoint has a new id and new batch numbers.

        Raise ExactlyOnceError if Spark does not tell the query's id or run.
        """
        if task.query_id is None:
            raise ExactlyOnceError(
                f"Spark does not tell its tasks the query's id ({QUERY_ID}), by which exactly_once "
                "knows a batch again: use delivery=at_least_once"
            )
        if task.run_id is None:
            raise ExactlyOnceError(
                f"Spark does not tell its tasks the query's run ({RUN_ID}), by which exactly_once "
                "keeps an older start of the query from writing: use delivery=at_least_once"
            )
        return cls(f"{options.sink_id or 'spark'}-{task.query_id}", task.run_id)

    @classmethod
    def of_batch(cls, options: SinkOptions, job_id: str, task: Task) -> Self:
        """Name the group after the job, or by `sinkId` if the user numbers the batches."""
        if options.batch_id is None:
            return cls(f"{options.sink_id or 'spark'}-{job_id}", job_id, job_id)
        assert options.sink_id is not None
        return cls(options.sink_id, task.run_id or job_id, job_id)

    @property
    def is_a_run(self) -> bool:
        """True if this job is a run of its own: no later job uses the same transactional ids."""
        return self.run == self.write


@dataclass(frozen=True)
class Prepared(WriterCommitMessage):
    """The transaction of one task attempt, invisible to readers until it is committed."""

    job: Job
    generation: int | None
    """The run's generation in its commit group; None if the ledger commits instead."""
    transaction: PreparedTransaction | None
    """The task's transaction; None if the task had no rows."""
    records: int
    recorded: int = -1
    """The newest batch that was committed before the task wrote anything; -1 if none was."""


def write(
    options: SinkOptions, job: Job, task: Task, batches: Iterator[pa.RecordBatch]
) -> Prepared:
    """Write a task's rows; on return all are acknowledged, and invisible until the commit.

    Raise ExactlyOnceError if the coordinator refuses the run, or if the cluster lacks commit
    groups and no ledger is allowed.
    """
    clients = sink_clients_for(options.client)
    generation, recorded = _begin_run(clients, options, job)
    if _is_recorded(options, job, recorded):
        return Prepared(job, generation, None, 0, recorded)
    transactional_id = _transactional_id(job, task, generation)
    rows: RowWriter | None = None
    transaction: PreparedTransaction | None = None
    count = 0
    try:
        for batch in batches:
            if batch.num_rows == 0:
                continue
            if rows is None:
                producer = clients.begin(transactional_id)
                dead_letters = dead_letters_of(options, producer)
                rows = RowWriter(producer, options.topic, dead_letters)
            rows.write(batch, count)
            count += batch.num_rows
        if rows is not None:
            rows.finish()
            transaction = producer.prepare_transaction()
    except BaseException:
        # The transaction is aborted at once, because readers wait for every open one.
        clients.drop(transactional_id)
        raise
    if job.is_a_run:
        # A prepared transaction stays open without its producer.
        clients.drop(transactional_id)
    return Prepared(job, generation, transaction, count, recorded)


def commit(
    options: SinkOptions, batch_id: int, messages: Sequence[WriterCommitMessage | None]
) -> None:
    """Make a batch visible, all of it or nothing.

    The call may be repeated, by any process, with the same messages or with those of another
    attempt at the same batch: only the first commit counts.

    Raise ExactlyOnceError if the commit is refused, or if a later batch is committed already. After
    another error, such as RequestTimedOut, the batch may be visible or not.
    """
    prepared = [message for message in messages if isinstance(message, Prepared)]
    if not prepared:
        return  # without tasks there are no rows, and no name of the job
    jobs = {(one.job, one.generation): None for one in prepared}
    if len(jobs) > 1:
        raise ExactlyOnceError(f"batch {batch_id} has tasks of several runs: {[*jobs]}")
    ((job, generation),) = jobs
    transactions = [one.transaction for one in prepared if one.transaction is not None]
    clients = sink_clients_for(options.client)
    try:
        if generation is None:
            settled = min(one.recorded for one in prepared)
            ledger = Ledger(clients)
            is_new = ledger.commit(job.group, job.run, batch_id, transactions, settled)
        else:
            is_new = clients.admin().commit_group(job.group, generation, batch_id, transactions)
            if not is_new:
                _check_newest(clients, job, batch_id)
    except (ApiError, AdminError) as error:
        raise ExactlyOnceError(_refused(job, batch_id, error)) from error
    if is_new:
        return
    if options.batch_id is not None and options.batch_id == max(one.recorded for one in prepared):
        # It was committed before this job began: a number given by hand may be a mistake.
        log.warning("batch %d of %s was committed before: not written again", batch_id, job.group)
    else:
        # It was committed before a restart, or by this very call, whose answer was lost.
        log.info("batch %d of %s is recorded already", batch_id, job.group)


def abort(options: SinkOptions, messages: Sequence[WriterCommitMessage | None]) -> None:
    """Abort a batch that failed, so that readers need not wait for it; never undo a commit.

    Spark calls this also after a commit whose answer was lost. The coordinator then refuses,
    because a transaction whose commit is recorded cannot be aborted any more.
    """
    left = [
        message.transaction
        for message in messages
        # A transaction that the ledger has decided on must not be aborted; the ledger aborts the
        # others.
        if isinstance(message, Prepared) and message.generation is not None
        if message.transaction is not None
    ]
    clients = sink_clients_for(options.client)
    failed = clients.end_all(left, commit=False, within_ms=ABORT_MS)
    for transaction, error in failed.items():
        if isinstance(error, ApiError):
            log.debug("%s is not aborted: %s", transaction.transactional_id, error)
    unknown = [error for error in failed.values() if not isinstance(error, ApiError)]
    if unknown:
        log.warning(
            "%d transactions not aborted, but left to their timeout: %s", len(unknown), unknown[0]
        )


def _begin_run(clients: SinkClients, options: SinkOptions, job: Job) -> tuple[int | None, int]:
    """Return the run's generation and its newest committed batch.

    The generation is None if the cluster has no commit groups, so that the ledger commits. Raise
    ExactlyOnceError if the options do not allow the ledger, or if the coordinator refuses the run.
    """
    try:
        return clients.state_of(job.group, job.run)
    except UnsupportedVersion as error:
        if options.fallback is Fallback.LEDGER:
            return None, _settled(clients, job)
        servers = options.client["bootstrap.servers"]
        raise ExactlyOnceError(
            f"delivery=exactly_once: the cluster at {servers} cannot commit a group of "
            f"transactions, minikafka's brokers can ({error}). Set exactlyOnceFallback=ledger, "
            "which is exact unless an outage outlasts kafka.transaction.timeout.ms, or "
            "delivery=at_least_once"
        ) from error
    except ApiError as error:
        raise ExactlyOnceError(f"{job.group}, run {job.run}: {_why(error)}") from error


def _settled(clients: SinkClients, job: Job) -> int:
    # The ledger finishes its decision before anything is written: a new writer may take over
    # transactional ids that a decided batch still needs, or take longer than their timeout.
    try:
        return clients.once(job, lambda: Ledger(clients).settled(job.group, job.run))
    except (ApiError, AdminError) as error:
        raise ExactlyOnceError(f"{job.group}, run {job.run}: {_why(error)}") from error


def _is_recorded(options: SinkOptions, job: Job, recorded: int) -> bool:
    """True if the batch, which has a number from the user, is committed already.

    Raise ExactlyOnceError if a later batch is committed.
    """
    if options.batch_id is None:
        return False
    if options.batch_id < recorded:
        raise out_of_the_past(job.group, options.batch_id, recorded)
    return options.batch_id == recorded


def _check_newest(clients: SinkClients, job: Job, batch_id: int) -> None:
    """Raise ExactlyOnceError if the batch is older than the newest committed one.

    Only the newest batch can be a repetition.
    """
    recorded = clients.admin().init_commit_group(job.group, job.run).batch_id
    if batch_id < recorded:
        raise out_of_the_past(job.group, batch_id, recorded)


def _transactional_id(job: Job, task: Task, generation: int | None) -> str:
    # Spark's Python API does not tell the attempt of a stage. So two attempts of a stage may use
    # one id for the same task: they fence each other, and the commit of the fenced one is refused.
    if generation is not None:
        # The id is of this run only, so that a task of an older run cannot take it over.
        return member_id(job.group, task.partition, generation, task.attempt)
    # The id is of this run only, so that a later run cannot abort what this one has decided.
    return f"{job.group}/{job.run}/{task.partition}.{task.attempt}"


def _refused(job: Job, batch_id: int, error: ApiError | AdminError) -> str:
    return f"batch {batch_id} of {job.group} is not committed: {_why(error)}"


def _why(error: ApiError | AdminError) -> str:
    code = next(iter(error.errors.values())).code if isinstance(error, AdminError) else error.code
    hint = {
        ErrorCode.PRODUCER_FENCED: "a newer run of the same query or sink has taken over",
        ErrorCode.GROUP_ID_NOT_FOUND: "the cluster has forgotten the sink's name: start the query "
        "again (a batch that was committed just before it stopped is written twice then)",
        ErrorCode.INVALID_TXN_STATE: "a transaction of it was ended before, by another writer of "
        "the same name or because it was open for longer than kafka.transaction.timeout.ms; "
        "nothing of the batch is visible, run it again",
        ErrorCode.MESSAGE_TOO_LARGE: "too many tasks for one commit: write fewer partitions",
    }.get(code)
    return str(error) if hint is None else f"{hint} ({error})"
