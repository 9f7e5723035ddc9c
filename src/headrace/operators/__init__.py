"""Operators, one file each: options, schema rule, lowering."""
