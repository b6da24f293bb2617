"""SQL92 filters of subscriptions, compiled once for each expression."""

from __future__ import annotations

from pyrmq.broker.config.broker_config import BrokerConfig
from pyrmq.engine import SqlFilter
from pyrmq.errors import ResponseError, SubscriptionError
from pyrmq.model.cached import cached_by_text
from pyrmq.model.codes import ResponseCode
from pyrmq.model.subscription import MAX_EXPRESSION, SQL92, TAG


@cached_by_text
def _compile(expression: str) -> SqlFilter:
    """ValueError, which is not kept, if it does not compile."""
    return SqlFilter(expression)


def check_kind(config: BrokerConfig, kind: str) -> None:
    """SYSTEM_ERROR for kinds of expressions that this broker does not evaluate, as it is set."""
    if kind == TAG or (kind == SQL92 and config.enable_property_filter):
        return
    hint = ": set enablePropertyFilter=true in its broker.conf" if kind == SQL92 else ""
    raise ResponseError(
        f"The broker does not support consumer to filter message by {kind[:64]}{hint}",
        ResponseCode.SYSTEM_ERROR,
    )


def sql_filter(expression: str) -> SqlFilter:
    """SUBSCRIPTION_PARSE_FAILED, with a text that says where and why, if it does not compile."""
    try:
        if len(expression) > MAX_EXPRESSION:  # before it is kept as a key
            raise ValueError(f"the expression has more than {MAX_EXPRESSION} characters")
        return _compile(expression)
    except ValueError as e:
        raise SubscriptionError(str(e), ResponseCode.SUBSCRIPTION_PARSE_FAILED) from None
