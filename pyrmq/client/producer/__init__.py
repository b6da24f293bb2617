"""Producers: sends, retries, batches and requests that wait for a reply."""
