"""Messages, queues, routes, subscriptions: values without I/O."""
