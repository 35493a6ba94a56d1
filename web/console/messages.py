"""The page that searches messages, and the stream of events that fills it."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request

from ...protocol.types import TopicPartition
from ...runtime.errors import MinikafkaError
from ..events import event
from . import asking
from .desk import Desk, NotThere
from .forms import filled
from .pages import Screen
from .scan import Progress, scan
from .views.changes import BadField
from .views.filters import BadFilter
from .views.messages import MessagesView, Question, question_of
from .views.records import MOST_BYTES

TOPIC_MS: Final = 1_000
MOST_SCANS: Final = 8
"""The most scans at a time; one more is refused with 503."""


async def show(desk: Desk, request: Request) -> Screen:
    """Show the form of the search; if the address holds a search, begin to scan.

    Raise NotThere if the cluster has no such topic.
    """
    topic: str = request.path_params["topic"]
    found = await desk.link.shared(TOPIC_MS, asking.topic, topic)
    if found is None:
        raise NotThere(f"The cluster has no topic {topic}.")
    indexes = tuple(one.partition for one in found.partitions)
    wrong = ""
    try:
        question = question_of(topic, request.query_params)
        _check(question)
    except (BadField, BadFilter) as error:
        wrong, question = str(error), Question(topic, filter=request.query_params.get("filter", ""))
    view = MessagesView(question, indexes, wrong, not wrong)
    return Screen("messages.html", f"Messages of {topic}", view, here="/topics")


async def stream(desk: Desk, request: Request) -> AsyncGenerator[bytes, None]:
    """Return the events of a scan; raise HTTPException if the scan cannot begin."""
    try:
        question = question_of(request.path_params["topic"], request.query_params)
        _check(question)
    except (BadField, BadFilter) as error:
        raise HTTPException(422, str(error)) from None
    return _events(desk, question)


async def _events(desk: Desk, question: Question) -> AsyncGenerator[bytes, None]:
    def found(progress: Progress) -> bytes:
        return event(desk.pages.part("found.html", progress=progress, question=question))

    desk.scans += 1
    try:
        if desk.scans > MOST_SCANS:
            raise BadField(f"{MOST_SCANS} run at a time: stop another one.")
        # Closed at once, wherever the visitor leaves: its consumer reads ahead until then.
        async with aclosing(scan(desk.link, question)) as turns:
            async for progress in turns:
                yield found(progress)
                if desk.closing.is_set():
                    break
    except MinikafkaError as error:
        yield found(Progress((), 0, 0, end=f"The scan ended: {error}"))
    finally:
        desk.scans -= 1
    # Whoever hears this does not connect again.
    yield event("over", "over")


async def replay(desk: Desk, request: Request) -> Screen:
    """Show the form that produces a record again, filled with the record at an offset.

    Raise NotThere if there is no such record, or if it is too large for a form.
    """
    topic: str = request.path_params["topic"]
    where = TopicPartition(topic, request.path_params["partition"])
    offset: int = request.path_params["offset"]

    found = await desk.link.ask(lambda admin: asking.topic(admin, topic))
    if found is None or where.partition not in [one.partition for one in found.partitions]:
        raise NotThere(f"The cluster has no partition {where.partition} of {topic}.")
    async with desk.link.consumer(**{"auto.offset.reset": "none"}) as consumer:
        consumer.assign([where])
        consumer.seek(where, offset)
        records = await consumer.poll(5_000, 1)
    if not records or records[0].offset != offset:
        raise NotThere(f"{topic}-{where.partition} has no record at offset {offset}.")
    (record,) = records
    fields = {"topic": topic, "partition": str(where.partition)}
    for name, data in (("key", record.key), ("value", record.value)):
        form, text = _typed(data)
        fields |= {name: text, f"{name}_form": form}
    fields["headers"] = "\n".join(
        f"{name}={(value or b'').decode(errors='replace')}" for name, value in record.headers
    )
    return filled(desk, "produce", fields)


def _check(question: Question) -> None:
    """Parse every part of a search, so that an error is shown before the scan begins."""
    assert question.match is None or callable(question.match)
    if question.begin == "offset":
        assert question.offset >= 0
    if question.begin == "time":
        assert question.time_ms is not None


def _typed(data: bytes | None) -> tuple[str, str]:
    """Return how a form writes these bytes: the kind of text, and the text.

    Raise NotThere if they are too many.
    """
    if data is None:
        return "null", ""
    if len(data) > MOST_BYTES:
        raise NotThere(f"The record is too large for a form: {len(data)} bytes.")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return "hex", data.hex(" ")
    # A browser would change these.
    is_plain = "\r" not in text and all(one.isprintable() or one in "\n\t" for one in text)
    return ("text", text) if is_plain else ("hex", data.hex(" "))
