"""Socket: lines read from a TCP server.

Delivery: at most once. The server does not know what was read, so lines that were on their way when the run
stopped are lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field as Option

from headrace.connectors.base import LossySource, Reading, connector
from headrace.errors import FlowError, Problem
from headrace.options import Options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class SocketOptions(Options):
    """Where the server listens."""

    host: str = Option("127.0.0.1", description="Host to connect to.", examples=["feed.example.org"])
    port: int = Option(ge=1, le=65535, description="Port to connect to.", examples=[9999])


@connector(
    "socket",
    options=SocketOptions,
    example="""
lines:
  socket: {port: 9999}
  format: text
""",
)
class SocketSource(LossySource[SocketOptions]):
    """One record per line. Connects when the run starts; if the server closes, no more lines come."""

    carries = "bytes"
    default_format = "text"
    weakness = "the sender does not repeat lines that were lost"

    def read(self, reading: Reading) -> DataFrame:
        from pyspark.sql import functions as F

        if reading.between is not None:
            raise FlowError(
                Problem(
                    code="unsupported",
                    message=f'source "{reading.place.step}" (socket) cannot be read again: its sender repeats nothing',
                    step=reading.place.step,
                    hint="land the lines on a Kafka topic first; what is there can be read again",
                )
            )
        if not reading.streaming:
            raise FlowError(
                Problem(
                    code="unsupported",
                    message=f'source "{reading.place.step}" (socket) never ends, so it cannot be read as a batch',
                    step=reading.place.step,
                    hint="run the flow as a stream",
                )
            )
        reader = reading.session.readStream.format("socket")
        frame = reader.option("host", self.options.host).option("port", self.options.port).load()
        return frame.select(F.col("value").cast("binary").alias("value"))
