"""The demo: a real Kafka, tweets that keep coming, a flow that counts hashtags, and a table that moves."""
