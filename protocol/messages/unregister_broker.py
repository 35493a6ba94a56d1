"""UnregisterBroker: remove the registration of a broker that will not return (KIP-500)."""

from ..api import ApiKey
from ..schema import Int16, Int32, String, field, request, response


@request(ApiKey.UNREGISTER_BROKER, versions="0", flexible="0+")
class UnregisterBrokerRequest:
    """Remove the registration of one broker."""

    broker_id: Int32


@response(ApiKey.UNREGISTER_BROKER)
class UnregisterBrokerResponse:
    """The result of the removal."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default=None)
