"""What Apache's broker answers to pops, acknowledgements, timers, recalls and priorities."""
