"""UnregisterBroker: forget a broker that will not come back (KIP-500)."""

from ..api import ApiKey
from ..schema import Int16, Int32, String, field, request, response


@request(ApiKey.UNREGISTER_BROKER, versions="0", flexible="0+")
class UnregisterBrokerRequest:
    """Forget one broker."""

    broker_id: Int32


@response(ApiKey.UNREGISTER_BROKER)
class UnregisterBrokerResponse:
    """The result for the broker."""

    throttle_time_ms: Int32 = field(default=0)
    error_code: Int16 = field(default=0)
    error_message: String | None = field(default=None)
