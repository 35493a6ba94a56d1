"""Forms of changes: shown beside the command that does the same, and carried out when sent.

A sent form is refused if the console only reads, or if it lacks the token that our pages carry.
"""

from typing import Final
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import Request

from ...runtime.errors import MinikafkaError
from .changing import perform
from .desk import Desk, NotThere
from .guard import is_token
from .pages import Screen
from .views.changes import CHANGES, BadField, Change, Given, checked, shell_line

MOST_BYTES: Final = 2 * 1024 * 1024
"""The largest form in bytes; a record of a megabyte fits, even with its line ends escaped."""
MOST_FIELDS: Final = 64
READ_ONLY: Final = (
    "This console only reads. Run the command below, or start the console with --allow-changes."
)


async def show(desk: Desk, request: Request) -> Screen:
    """Show the form of a change, filled with the values in the page's address."""
    name, _ = _change(request)
    return filled(desk, name, request.query_params)


async def send(desk: Desk, request: Request) -> Screen:
    """Carry out a change, and show the result; if it fails, show the form again with the error."""
    name, change = _change(request)
    given = await read_form(request)
    check_token(desk, given)
    try:
        fields = checked(change, given)
        sentence = await perform(desk.link, name, fields)
    except MinikafkaError as error:
        return filled(desk, name, given, error)
    command = shell_line(desk.link.bootstrap, *change.command(fields))
    more = {"command_line": command, "back": change.back(fields)}
    return Screen("done.html", change.title, sentence, here=change.here, more=more)


def check_token(desk: Desk, given: Given) -> None:
    """Raise HTTPException if changes are not allowed, or the form does not carry our token."""
    if not desk.allow_changes:
        raise HTTPException(403, READ_ONLY)
    if not is_token(given.get("token", ""), desk.token):
        raise HTTPException(403, "The form is from before the console was started: load it again.")


async def read_form(request: Request) -> dict[str, str]:
    """Read a form of at most `MOST_BYTES` and `MOST_FIELDS`; of equal names the last counts.

    Raise HTTPException (413 or 400) if it is larger, or is not a form.
    """
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BYTES:
            raise HTTPException(413, f"A form has {MOST_BYTES} bytes at the most.")
    try:
        found = parse_qsl(
            body.decode(),
            keep_blank_values=True,
            strict_parsing=bool(body),
            max_num_fields=MOST_FIELDS,
        )
    except ValueError:
        raise HTTPException(400, "The request carries no form.") from None
    return dict(found)


def _change(request: Request) -> tuple[str, Change]:
    name: str = request.path_params["change"]
    if name not in CHANGES:
        raise NotThere(f"There is no change {name}.")
    return name, CHANGES[name]


def filled(desk: Desk, name: str, given: Given, wrong: MinikafkaError | None = None) -> Screen:
    """Show the form of a change, filled with these fields, and the error if there is one."""
    change = CHANGES[name]
    values = {field.name: given.get(field.name, field.default) for field in change.fields}
    try:
        command = shell_line(desk.link.bootstrap, *change.command(checked(change, given)))
    except BadField:
        command = ""
    status = 200 if wrong is None else 422 if isinstance(wrong, BadField) else 502
    more = {"name": name, "values": values, "command_line": command, "wrong": str(wrong or "")}
    return Screen("form.html", change.title, change, status=status, here=change.here, more=more)
