"""The whole under load, failures and foreign input, and beside Apache RocketMQ's programs."""
