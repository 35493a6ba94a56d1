"""The settings of the audit: whether what changes in the cluster is written to a topic."""

from ..protocol.audit import AUDIT_ENABLE, AUDIT_REQUIRED
from ..runtime.config import config_table, setting


@config_table
class AuditConfig:
    """Switches of the whole cluster: in the files of all nodes alike, or at run time for all."""

    enable: bool = setting(
        AUDIT_ENABLE,
        False,
        dynamic=True,
        doc="Whether each change of the cluster's metadata that somebody asked for is written to"
        " `__minikafka_audit`, with who asked.",
    )
    required: bool = setting(
        AUDIT_REQUIRED,
        False,
        dynamic=True,
        doc="Whether changes are refused with POLICY_VIOLATION while the audit cannot be written;"
        " without effect unless minikafka.audit.enable is true.",
    )
