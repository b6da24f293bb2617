"""Ending the service by a signal."""

from __future__ import annotations

import signal
import threading

import trio

from pyrmq.admin.monitoring.monitor import Monitor, os_errors


async def run_until_signal(monitor: Monitor) -> None:
    """Runs until SIGINT or SIGTERM; at the second of them it does not wait for sinks. Where signals
    are not to be had, in another thread than the main one, until `monitor.stop`."""
    if threading.current_thread() is not threading.main_thread():
        await monitor.run()
        return
    with os_errors(), trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:

            async def stop() -> None:
                stopping = False
                async for _ in signals:
                    if stopping:
                        nursery.cancel_scope.cancel()
                    stopping = True
                    monitor.stop()

            nursery.start_soon(stop)
            await monitor.run()
            nursery.cancel_scope.cancel()
