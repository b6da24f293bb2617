"""What operators ask of running brokers, over the wire, of pyrmq's and of Apache RocketMQ's."""
