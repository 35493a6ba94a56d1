"""The settings of the authorizer, under Kafka's keys."""

from typing import Final

from ..runtime.config import config_table, setting
from ..runtime.errors import ConfigError
from .principal import principal_of

STANDARD: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ALIAS: Final = "StandardAuthorizer"


@config_table
class AuthorizerConfig:
    """The settings that say whether access control entries are enforced, and who may do all."""

    class_name: str | None = setting(
        "authorizer.class.name",
        None,
        choices=(STANDARD, ALIAS),
        doc="With StandardAuthorizer only what access control entries (ACLs) allow is allowed; "
        "unset, everybody may do everything. A controller with it authorizes what brokers forward.",
    )
    super_users: str = setting(
        "super.users",
        "",
        doc="Type:name;... of principals that may do everything, whatever the ACLs say. Brokers "
        "must be among them, as User:ANONYMOUS on a listener without authentication.",
    )
    allow_if_no_acl: bool = setting(
        "allow.everyone.if.no.acl.found",
        False,
        doc="If true, everybody may do everything with a resource that no ACL covers.",
    )

    @property
    def super_principals(self) -> tuple[str, ...]:
        """The super users, each as `Type:name`."""
        return tuple(part.strip() for part in self.super_users.split(";") if part.strip())

    def check(self) -> None:
        """Raise ConfigError if a super user is no principal."""
        for each in self.super_principals:
            try:
                principal_of(each)
            except ValueError as error:
                why = f"{error}; they are separated by ;"
                raise ConfigError("super.users", self.super_users, why) from None
