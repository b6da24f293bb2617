"""URLs of access points."""

from __future__ import annotations

import pytest

from pyrmq.errors import ClientError, ConfigError, NotSupportedError
from pyrmq.oms.settings import MAX_SERVERS, MAX_URL, parse_url


@pytest.mark.parametrize(
    ("url", "namesrv", "namespace"),
    [
        ("oms:rocketmq://localhost:9876/default:default", "localhost:9876", ""),
        ("openmessaging:rocketmq://IP1:9876,IP2:9877/namespace", "IP1:9876;IP2:9877", "namespace"),
        ("oms:rocketmq://h:1/default", "h:1", ""),
        ("oms:rocketmq://[::1]:65535,10.0.0.1:1/a-b_C9", "[::1]:65535;10.0.0.1:1", "a-b_C9"),
        (f"oms:rocketmq://{','.join(['h:1'] * MAX_SERVERS)}/" + "n" * 64, None, "n" * 64),
    ],
)
def test_urls(url: str, namesrv: str | None, namespace: str) -> None:
    parsed = parse_url(url)
    assert namesrv in (None, parsed.namesrv)
    assert parsed.namespace == namespace
    assert url == f"{url.partition(':')[0]}:rocketmq://{parsed.servers}/{parsed.region}"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "/",
        "rocketmq://h:1/n",
        "http://h:1/n",
        "OMS:rocketmq://h:1/n",
        "oms:rocketmq:h:1/n",
        "oms:rocketmq:/h:1/n",
        "oms://rocketmq://h:1/n",
        " oms:rocketmq://h:1/n",
        "oms:rocketmq://h:1/n\n",
        "oms:rocketmq://h:1/n ",
        "oms:rocketmq:///n",
        "oms:rocketmq://h/n",
        "oms:rocketmq://h:/n",
        "oms:rocketmq://h:0/n",
        "oms:rocketmq://h:65536/n",
        "oms:rocketmq://h:99999999999999/n",
        "oms:rocketmq://h:-1/n",
        "oms:rocketmq://h:1_0/n",
        "oms:rocketmq://h:\u0661/n",
        "oms:rocketmq://:1/n",
        "oms:rocketmq://h:1,/n",
        "oms:rocketmq://h:1,,h:2/n",
        "oms:rocketmq://h:1;h:2/n",
        "oms:rocketmq://h:1, h:2/n",
        "oms:rocketmq://h\x00:1/n",
        "oms:rocketmq://\u212aelvin:1/n",
        "oms:rocketmq://[::1:1/n",
        "oms:rocketmq://::1:1/n",
        "oms:rocketmq://h:1",
        "oms:rocketmq://h:1/",
        "oms:rocketmq://h:1//",
        "oms:rocketmq://h:1/a/b",
        "oms:rocketmq://h:1/a%b",
        "oms:rocketmq://h:1/%2e",
        "oms:rocketmq://h:1/..",
        "oms:rocketmq://h:1/n?x=y",
        "oms:rocketmq://h:1/eu:west",
        "oms:rocketmq://h:1/" + "n" * 65,
        "oms:rocketmq://" + ",".join(["h:1"] * (MAX_SERVERS + 1)) + "/n",
        "oms:rocketmq://" + "h" * 254 + ":1/n",
        "oms:rocketmq://h:1/" + "n" * MAX_URL,
    ],
)
def test_what_is_none(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_url(url)
    assert len(str(caught.value)) < 600
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("url", [None, b"oms:rocketmq://h:1/n", 5])
def test_other_kinds(url: str) -> None:
    with pytest.raises(ClientError, match="str is needed"):
        parse_url(url)


@pytest.mark.parametrize("driver", ["kafka", "", "RocketMQ", "x" * 500])
def test_other_drivers(driver: str) -> None:
    with pytest.raises(NotSupportedError, match="driver rocketmq"):
        parse_url(f"oms:{driver}://h:1/n")


@pytest.mark.parametrize(
    "url",
    [
        "oms:rocketmq://alice@h:1/n",
        "oms:rocketmq://alice:secret@h:1/n",
        "oms:kafka://alice:secret@h:1/n",
        "rocketmq://alice:secret@h:1/n",
        "oms:rocketmq://h:1/n@secret",
    ],
)
def test_accounts_are_refused_and_not_repeated(url: str) -> None:
    with pytest.raises((ConfigError, NotSupportedError)) as caught:
        parse_url(url)
    assert "alice" not in str(caught.value)
    assert "secret" not in str(caught.value)
