"""Small programs the Makefile runs; no part of the product."""
