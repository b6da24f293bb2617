"""Selecting messages by their properties, with SQL92 expressions.

    PYRMQ_BROKER_CONF_ENABLE_PROPERTY_FILTER=true pyrmq server
    python examples/filter_sql.py [--namesrv HOST:PORT]

A courier service: the van takes the heavy parcels of the north, the bicycle light ones. The broker
evaluates the expressions, with `enablePropertyFilter=true` in its broker.conf.
"""

from __future__ import annotations

import argparse
import asyncio
import sys

from pyrmq import ResponseError
from pyrmq.aio import ConsumeFrom, Message, Producer, PushConsumer, Sql

PARCELS = [("north", 12), ("south", 30), ("north", 1), ("north", 25), ("east", 2)]
VAN = Sql("region = 'north' AND kilograms >= 5")
BICYCLE = Sql("region IN ('north', 'east') AND kilograms < 5")


async def consume(namesrv: str, group: str, wanted: Sql, missing: set[str]) -> None:
    async with PushConsumer(
        group, {"Deliveries": wanted}, namesrv=namesrv, consume_from=ConsumeFrom.FIRST_OFFSET
    ) as consumer:
        async for message in consumer:
            print(f"{group}: {message.properties['kilograms']} kg, {message.properties['region']}")
            missing.discard(message.msg_id)
            if not missing:
                await consumer.acknowledge(message)
                break


async def main(namesrv: str) -> None:
    ids = []
    async with Producer("depot", namesrv=namesrv) as producer:
        for region, kilograms in PARCELS:
            properties = {"region": region, "kilograms": str(kilograms)}
            result = await producer.send(Message("Deliveries", b"parcel", properties=properties))
            ids.append(result.msg_id)
    try:
        await consume(namesrv, "van", VAN, {ids[0], ids[3]})
        await consume(namesrv, "bicycle", BICYCLE, {ids[2], ids[4]})
    except ResponseError as error:
        sys.exit(str(error))  # the text says what to do if the broker does not accept SQL


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--namesrv", default="127.0.0.1:9876", help="HOST:PORT of a name server")
    asyncio.run(main(parser.parse_args().namesrv))
