"""Tests of single modules, without sockets or processes."""
