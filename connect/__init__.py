"""Connect: connectors move data into topics and out of them, on workers that share the work.

from minikafka.connect.api import SourceConnector, SourceTask, SinkConnector, SinkTask
from minikafka.connect.records import SourceRecord, SinkRecord
from minikafka.connect.config_def import ConfigDef, ConfigKey
"""
