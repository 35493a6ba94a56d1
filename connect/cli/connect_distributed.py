"""`minikafka connect-distributed`: a worker of a group that shares connectors."""

from .launch import worker_command

connect_distributed = worker_command(
    "connect-distributed",
    "..distributed_worker",
    [],
    help="""Run a worker of the group `group.id`, until Ctrl-C or SIGTERM.

    All workers of a group share its connectors, which are created through the REST API of any of
    them. Configurations, offsets and states are kept in the three topics that the file names.

    \b
    minikafka connect-distributed worker.properties
    minikafka connect-distributed worker.properties --override listeners=http://127.0.0.1:8084
    """,
)
