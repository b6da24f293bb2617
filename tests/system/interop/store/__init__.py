"""Apache RocketMQ's own broker and ours on one store directory."""

import pytest

pytest.register_assert_rewrite(*(f"{__name__}.{name}" for name in ("ledger", "special", "turns")))
