"""The SQL front door: a file of statements is a flow."""
