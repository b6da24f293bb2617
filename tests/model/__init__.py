"""Names, messages, records, routes: what all parts speak of."""
