"""Which clients for asyncio and for threads scripts/portals.py writes, and how each is made."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from types import FunctionType

from pyrmq.admin.api import Admin
from pyrmq.client.consumer import lite_pull
from pyrmq.client.consumer.options import LitePullConsumerOptions, SimpleConsumerOptions
from pyrmq.client.consumer.push_consumer import PushConsumer
from pyrmq.client.consumer.simple import SimpleConsumer
from pyrmq.client.option_types import ProducerOptions
from pyrmq.client.producer.producer import Producer
from pyrmq.client.transaction.producer import TransactionalProducer
from pyrmq.oms import MessagingAccessPoint
from pyrmq.oms import Producer as OmsProducer
from pyrmq.oms import PullConsumer as OmsPullConsumer
from pyrmq.oms import PushConsumer as OmsPushConsumer
from pyrmq.outbox import Outbox


@dataclass(frozen=True)
class Portal:
    """One of the two ways to call."""

    name: str
    base: str
    """The module that has `Client`, `streamed` and `call`."""
    call: str
    """The function that makes a method of a coroutine function."""
    words: str
    """The words of its docstrings, in pyrmq.portal.client."""
    users: str
    is_async: bool

    @property
    def client(self) -> type:
        found: type = import_module(self.base).Client
        return found


PORTALS = (
    Portal("aio", "pyrmq.portal.awaiting", "awaited", "ASYNCIO", "asyncio", True),
    Portal("sync", "pyrmq.portal.blocking", "blocking", "PLAIN", "threads", False),
)


@dataclass(frozen=True)
class Called:
    """A client for trio whose methods are called through the portal."""

    trio: type
    by_hand: str = ""
    """The base class with what is written by hand: its module in the package, and its name. It has
    the docstring of the class too, if that begins with "As "."""
    options: type | None = None
    """The TypedDict that the constructor takes as `**options`."""
    made_from: str = "arguments"
    """What the constructor takes: the arguments of the client's, or the client itself."""
    functions: tuple[FunctionType, ...] = ()
    """They are called instead of the methods of their names."""
    direct: frozenset[str] = frozenset()
    """Methods that are called without the portal, also when the client is closed."""
    left_out: frozenset[str] = frozenset()
    """Methods, and arguments of the constructor, that only trio has."""


@dataclass(frozen=True)
class Inherited:
    """A class that needs no portal itself. It is inherited, except for some of its methods."""

    trio: type
    through: tuple[tuple[FunctionType, str, FunctionType], ...] = ()
    """Methods that are called through the portal of an argument; that argument; the function whose
    options they take."""
    making: tuple[FunctionType, ...] = ()
    """Methods that make a client of trio, which becomes one of this file."""
    by_hand: tuple[str, ...] = ()
    """Classes that are inherited too, if the package has them."""


@dataclass(frozen=True)
class File:
    """A file that is written for each portal."""

    path: str
    what: str
    classes: tuple[Called | Inherited, ...]

    def module(self, portal: Portal) -> str:
        return self.path.format(portal.name).removesuffix(".py").replace("/", ".")

    def package(self, portal: Portal) -> str:
        return self.module(portal).rpartition(".")[0]


_LOOP = frozenset({"check_entered", "finish", "put_back", "take"})
"""What loops are made of."""
_TAKEN = frozenset({"check_entered", "take"})
"""What is used of a push consumer by clients that are made of it."""
_POLLS = frozenset({"poll_unseen", "saw"})
"""What polls are made of."""
_OUTBOX_SEND = (Outbox.send, "producer", TransactionalProducer.send_in_transaction)
_ATTACHING = frozenset({"attach_first", "detach_first"})
_ACCESS = MessagingAccessPoint
FILES = (
    File(
        "pyrmq/{}/_generated_clients.py",
        "The producers and consumers",
        (
            Called(Producer, "special.Sending", ProducerOptions),
            Called(
                TransactionalProducer,
                "special.SendingInTransactions",
                direct=frozenset({"statistics"}),
                left_out=frozenset({"listener_of", "transaction"}),
            ),
            Called(
                PushConsumer, "special.Listening", left_out=frozenset({"check_entered", "take"})
            ),
            Called(
                lite_pull.LitePullConsumer,
                "special.Polling",
                LitePullConsumerOptions,
                functions=(lite_pull.assign,),
                left_out=_LOOP | _POLLS,
            ),
            Called(
                SimpleConsumer,
                options=SimpleConsumerOptions,
                left_out=frozenset({"check_entered"}),
            ),
        ),
    ),
    File(
        "pyrmq/{}/_generated_admin.py",
        "`pyrmq.admin.Admin`",
        (Called(Admin, left_out=frozenset({"progress"})),),
    ),
    File(
        "pyrmq/{}/_generated_outbox.py",
        "`pyrmq.outbox.Outbox`",
        (Inherited(Outbox, through=(_OUTBOX_SEND,)),),
    ),
    File(
        "pyrmq/oms/{}/_generated_clients.py",
        "OpenMessaging's access point, producer and consumers",
        (
            Called(OmsProducer, "special.Sending", made_from="client"),
            Called(OmsPushConsumer, "special.Listening", made_from="client", left_out=_ATTACHING),
            Called(OmsPullConsumer, "special.Pulling", made_from="client", left_out=_ATTACHING),
            Inherited(
                _ACCESS,
                making=(
                    _ACCESS.create_producer,
                    _ACCESS.create_push_consumer,
                    _ACCESS.create_pull_consumer,
                ),
                by_hand=("special.Connectionless",),
            ),
        ),
    ),
)
