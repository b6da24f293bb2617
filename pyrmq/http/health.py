"""/healthz and /readyz: the health of a server as JSON, 200 or 503."""

from __future__ import annotations

from pyrmq.http.messages import Handler, Reply, Request
from pyrmq.net.health import Health

JSON = "application/json"
LIVE_PATH, READY_PATH = "/healthz", "/readyz"


def health_routes(health: Health) -> dict[str, Handler]:
    """Handlers by path: /healthz (only a restart helps) and /readyz (no work now)."""

    def handler(*, ready: bool) -> Handler:
        async def answer(request: Request) -> Reply:
            good, body = health.report(ready=ready)
            return Reply(200 if good else 503, JSON, body)

        return answer

    return {LIVE_PATH: handler(ready=False), READY_PATH: handler(ready=True)}
