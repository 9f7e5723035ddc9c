"""The kit with which flows are tested: cases written beside them, run on real Spark."""
