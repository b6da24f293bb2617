"""Options of a wrong type: ClientError with what was wanted, for each option of each client."""

from __future__ import annotations

from typing import Any, get_type_hints

import pytest

import pyrmq
from pyrmq import ClientError, aio, sync
from pyrmq.client import option_types
from pyrmq.client.consumer import options as consumer_options


class Listener:
    def execute_local_transaction(self, message: Any, arg: Any) -> None: ...

    def check_local_transaction(self, message: Any) -> None: ...


CLIENTS: dict[str, tuple[tuple[Any, ...], Any]] = {
    "Producer": (("g",), option_types.ProducerOptions),
    "TransactionalProducer": (("g", Listener()), option_types.TransactionalProducerOptions),
    "PushConsumer": (("g", {"T": "*"}), consumer_options.PushConsumerOptions),
    "LitePullConsumer": (("g", {"T": "*"}), consumer_options.LitePullConsumerOptions),
}


@pytest.mark.parametrize("package", [pyrmq, sync, aio])
@pytest.mark.parametrize("client", CLIENTS)
def test_no_option_takes_what_it_is_not(package: Any, client: str) -> None:
    arguments, options = CLIENTS[client]
    for name in get_type_hints(options):
        with pytest.raises(
            ClientError, match=rf"^{name} is (<object|of the type object).*; .* is needed$"
        ):
            getattr(package, client)(*arguments, **{"namesrv": "a:1", name: object()})


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"namesrv": ["a:1", "b:1"]}, "namesrv is ['a:1', 'b:1']; one text, 'host:port' or "),
        ({"send_timeout": "3s"}, "send_timeout is '3s'; a number of seconds is needed"),
        ({"retry_times": 2.5}, "retry_times is 2.5; a whole number is needed"),
        ({"retry_times": True}, "retry_times is True; a whole number is needed"),
        ({"attempt_timeout": "1"}, "attempt_timeout is '1'; a number of seconds or None is needed"),
        ({"hooks": "hook"}, "hooks is 'hook'; a list is needed"),
        ({"auto_batch": "yes"}, "auto_batch is 'yes'; True or False is needed"),
    ],
)
def test_what_was_wanted(options: dict[str, Any], text: str) -> None:
    for package in (pyrmq, sync, aio):
        with pytest.raises(ClientError) as caught:
            package.Producer("g", **{"namesrv": "a:1", **options})
        assert str(caught.value).startswith(text)


@pytest.mark.parametrize("package", [pyrmq, sync, aio])
@pytest.mark.parametrize("name", ["credentials", "tls"])
def test_a_secret_of_a_wrong_type_is_not_shown(package: Any, name: str) -> None:
    with pytest.raises(ClientError, match=f"^{name} is of the type tuple; ") as caught:
        package.Producer("g", namesrv="a:1", **{name: ("me", "my secret")})
    assert "my secret" not in str(caught.value)


@pytest.mark.parametrize("package", [pyrmq, sync, aio])
def test_subscriptions_as_text(package: Any) -> None:
    for client in (package.PushConsumer, package.LitePullConsumer):
        with pytest.raises(ClientError, match="subscriptions is str; a dict of topics"):
            client("g", "TopicTest", namesrv="a:1")


@pytest.mark.parametrize("options", [{"namesrv": ["a:1"]}, {"namesrv": "a:1", "timeout": "3"}])
def test_admin(options: dict[str, Any]) -> None:
    from pyrmq.admin import Admin

    for kind in (Admin, sync.Admin, aio.Admin):
        with pytest.raises(ClientError, match="is needed"):
            kind(**options)
