"""Foreign clients against our server: the official Java client and the Go client."""
