"""`minikafka connect-standalone`: one worker, which runs the connectors of files."""

import click

from .launch import worker_command

connect_standalone = worker_command(
    "connect-standalone",
    "..standalone_worker",
    [
        click.Argument(
            ["connectors"],
            nargs=-1,
            type=click.Path(exists=True, dir_okay=False),
            metavar="connector.{properties,json}...",
        )
    ],
    help="""Run connectors in one worker, without a group, until Ctrl-C or SIGTERM.

    Each file is one connector. Source offsets are kept in offset.storage.file.filename, so that
    they go on where they were. More connectors may be created through the REST API on `listeners`;
    they are gone when the worker ends.

    \b
    minikafka connect-standalone worker.properties orders.json
    minikafka connect-standalone worker.properties --override listeners=http://127.0.0.1:8083
    """,
)
