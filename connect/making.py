"""Makes the stores of offsets and the runners of tasks, as the configurations say.

A task's modules are imported when it is made: a worker without sinks or sources needs not both.
"""

from collections.abc import Callable, Mapping
from typing import Any

from ..client.admin.topic_types import NewTopic
from ..runtime.runtime import Runtime
from .api import AsyncSinkTask, AsyncSourceTask, ColumnSinkTask
from .clients import Clients, worker_settings
from .offset_store import FileOffsets, OffsetStore, TopicOffsets
from .plugins import PluginKind, Plugins
from .states import TargetState, TaskId
from .task_runner import Assignment, Surroundings, TaskRunner, Work
from .worker_config import WorkerConfig

Props = Mapping[str, str]


def make_store(runtime: Runtime, config: WorkerConfig) -> OffsetStore:
    """Return the worker's store: a file of a standalone worker, else the offsets topic."""
    path = config.offset_storage_file_filename
    if not config.is_distributed and path is not None:
        return FileOffsets(runtime, path)
    assert config.offset_storage_topic is not None
    return _topic(runtime, config, config.offset_storage_topic, worker_settings(config))


def own_offsets(
    runtime: Runtime, config: WorkerConfig, clients: Clients, props: Props
) -> TopicOffsets | None:
    """Return the offsets topic of a connector, if it is not the worker's store."""
    topic = props.get("offsets.storage.topic", "").strip()
    if config.is_exactly_once and not topic and not config.is_distributed:
        topic = config.offset_storage_topic or ""
    if not topic or (config.is_distributed and topic == config.offset_storage_topic):
        return None
    return _topic(runtime, config, topic, clients.offsets())


def _topic(
    runtime: Runtime, config: WorkerConfig, name: str, settings: Mapping[str, Any]
) -> TopicOffsets:
    topic = NewTopic(
        name,
        config.offset_storage_partitions,
        config.offset_storage_replication_factor,
        configs=config.storage_configs("offset.storage."),
    )
    return TopicOffsets(runtime, topic, settings)


class Maker:
    """Makes runners; `resolve` puts values in place of references to config providers."""

    def __init__(
        self,
        plugins: Plugins,
        around: Surroundings,
        resolve: Callable[[str, Props], dict[str, str]],
    ) -> None:
        self._plugins = plugins
        self._around = around
        self._resolve = resolve

    def make(
        self, task: TaskId, given: tuple[Props, Props], target: TargetState, generation: int
    ) -> TaskRunner:
        """Return the runner of a task, whose life begins. Raise what makes it impossible."""
        name, around = task.connector, self._around
        connector_props, task_props = (self._resolve(name, each) for each in given)
        found, kind = self._plugins.find_connector(connector_props.get("connector.class", ""))
        clients = Clients(around.config, name, connector_props)
        assignment = Assignment(
            task,
            found.task,
            kind is PluginKind.SOURCE,
            issubclass(found.task, AsyncSourceTask | AsyncSinkTask),
            self._takes_columns(found.task, connector_props),
            connector_props,
            task_props,
            generation,
            clients,
            given,
        )
        make = _sink if kind is PluginKind.SINK else _source
        return TaskRunner(assignment, around, target, make)

    def _takes_columns(self, task: type[Any], props: Props) -> bool:
        if not issubclass(task, ColumnSinkTask) or props.get("transforms", "").strip():
            return False
        config = self._around.config
        plain = self._plugins.find("ByteArrayConverter", PluginKind.CONVERTER)
        names = [
            props.get(key, "").strip() or default
            for key, default in (
                ("key.converter", config.key_converter),
                ("value.converter", config.value_converter),
            )
        ]
        return all(self._plugins.find(name, PluginKind.CONVERTER) is plain for name in names)


def _sink(task: TaskRunner) -> Work:
    from .sink_runner import SinkWork

    return SinkWork(task)


def _source(task: TaskRunner) -> Work:
    from .source_runner import SourceWork

    around, one = task.around, task.assignment
    own = own_offsets(around.runtime, around.config, one.clients, one.connector_props)
    if not around.config.is_exactly_once:
        from .source_delivery import AtLeastOnce

        return SourceWork(task, AtLeastOnce(task, own))
    from .exactly_once import ExactlyOnce

    topic = around.store if own is None else own
    assert isinstance(topic, TopicOffsets)
    return SourceWork(task, ExactlyOnce(task, topic))
