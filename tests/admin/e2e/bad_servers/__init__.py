"""Commands against servers that lie, stay silent, refuse, or of which half are gone."""
