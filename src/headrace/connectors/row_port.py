"""Rows of a stream brought to Python one by one, for sinks in real-time mode.

Spark hands rows to a Python `foreach` in bundles that double in size until the batch ends: they wait for seconds. So
each task has a small writer in Java, which sends every row at once, as JSON, through a socket to the driver; there a
sink takes as many as have come. At the end of a batch a task waits until the sink has all its rows, so that what is
committed is written. The writer is compiled in the running Java by Janino, which is part of Spark.
"""

from __future__ import annotations

import base64
import contextlib
import json
import secrets
import select
import socket
import struct
import tempfile
import threading
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter
    from pyspark.sql.types import DataType

Row = list[Any]
Take = Callable[[list[Row]], None]
"""Makes rows durable; what it raises ends the query."""

_CLASS = "headrace.RowPort"
_JAVA = """
package headrace;
public class RowPort extends org.apache.spark.sql.ForeachWriter {
    private static final long serialVersionUID = 1L;
    private final String host;
    private final int port;
    private final String secret;
    private transient java.net.Socket socket;
    private transient java.io.DataOutputStream out;
    private transient java.io.DataInputStream in;

    public RowPort(String host, Integer port, String secret) {
        this.host = host;
        this.port = port.intValue();
        this.secret = secret;
    }

    public boolean open(long partition, long epoch) {
        try {
            this.socket = new java.net.Socket(this.host, this.port);
            this.socket.setTcpNoDelay(true);
            this.out = new java.io.DataOutputStream(new java.io.BufferedOutputStream(this.socket.getOutputStream()));
            this.in = new java.io.DataInputStream(this.socket.getInputStream());
            this.out.writeUTF(this.secret);
            this.out.flush();
            return true;
        } catch (java.io.IOException error) {
            throw new RuntimeException(error);
        }
    }

    public void process(Object row) {
        try {
            if (this.in.available() > 0) {
                throw new RuntimeException(this.in.readUTF());
            }
            byte[] text = ((org.apache.spark.sql.Row) row).getString(0).getBytes("UTF-8");
            this.out.writeInt(text.length);
            this.out.write(text);
            this.out.flush();
        } catch (java.io.IOException error) {
            throw new RuntimeException(error);
        }
    }

    public void close(Throwable failed) {
        if (this.socket == null) {
            return;
        }
        try {
            if (failed == null) {
                this.out.writeInt(-1);
                this.out.flush();
                String said = this.in.readUTF();
                if (said.length() > 0) {
                    throw new RuntimeException(said);
                }
            }
            this.socket.close();
        } catch (java.io.IOException error) {
            throw new RuntimeException(error);
        }
    }
}
"""
_WRITTEN = {
    "ignoreNullFields": "false",
    "timeZone": "UTC",  # as the driver's is, in which times are collected
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",  # Spark's own cuts off the microseconds
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
_SIZE = 4
"""Bytes of the size before each row."""
_MOST = 1000
"""Rows that a sink is given at once, at most."""
_LONGEST = 60_000
"""Bytes of a message to Java, which takes no more than 65,535."""


def writer(frame: DataFrame, take: Take) -> DataStreamWriter:
    """What writes a streaming frame to `take`, row by row: values as `collect` gives them, structs as dicts."""
    from pyspark.sql import functions as F

    # By position: names may differ in nothing but their case.
    named = [F.col(f"`{n.replace('`', '``')}`").alias(f"c{i}") for i, n in enumerate(frame.columns)]
    text = F.to_json(F.struct(*named), _WRITTEN)
    kinds = [field.dataType for field in frame.schema.fields]

    def take_values(rows: list[Row]) -> None:
        take([[valued(value, kind) for value, kind in zip(row, kinds, strict=True)] for row in rows])

    session = frame.sparkSession
    port = Port(take=take_values, names=[f"c{i}" for i in range(len(named))], host=_host(session))
    made = frame.select(text.alias("row")).writeStream
    made._jwrite.foreach(_java_writer(session, port))
    return made


def valued(value: Any, kind: DataType) -> Any:
    """A value that JSON brought as one of its type, as it would be in a collected row."""
    name = kind.typeName()
    if value is None:
        return None
    match name:
        case "double":
            return float(value)  # NaN and the infinite ones come as text
        case "float":
            return struct.unpack("f", struct.pack("f", float(value)))[0]
        case "decimal":
            return Decimal(value)
        case "timestamp" | "timestamp_ntz":
            return datetime.fromisoformat(value)
        case "date":
            return date.fromisoformat(value)
        case "binary":
            return base64.b64decode(value)
        case "array":
            return [valued(item, kind.elementType) for item in value]  # type: ignore[attr-defined]
        case "map":
            return {key: valued(item, kind.valueType) for key, item in value.items()}  # type: ignore[attr-defined]
        case "struct":
            return {f.name: valued(value.get(f.name), f.dataType) for f in kind.fields}  # type: ignore[attr-defined]
    return value


@dataclass
class Port:
    """Where the tasks of a query bring their rows."""

    take: Take
    names: Sequence[str]
    host: str = "127.0.0.1"
    secret: str = field(default_factory=lambda: secrets.token_hex(16))
    """Other programs on the machine may not write here."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._server = socket.create_server((self.host, 0))
        threading.Thread(target=self._accept, name="row port", daemon=True).start()

    @property
    def number(self) -> int:
        return int(self._server.getsockname()[1])

    def close(self) -> None:
        """Takes no more connections; those that are there go on."""
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)  # wakes up whoever waits in `accept`
        self._server.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return  # closed
            threading.Thread(target=self._serve, args=(connection,), name="row port", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        """Takes the rows of one task; says at the end, or at once if something is wrong, how it went."""
        with connection:
            stream = _Stream(connection)
            try:
                if not secrets.compare_digest(stream.text(), self.secret):
                    return
                ended = False
                while not ended:
                    rows, ended = stream.rows(self.names)
                    if rows:
                        with self._lock:
                            self.take(rows)
                connection.sendall(_utf(""))
            except EOFError:
                return  # the task was ended; what it has sent is written again by its successor
            except Exception as error:  # noqa: BLE001, whatever it is goes to the task, and by it to the query
                said = f"{type(error).__module__}.{type(error).__name__}: {error}".split("\n")[0]
                connection.sendall(_utf(said))


class _Stream:
    """Reads what a task sends."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self._buffer = connection, b""

    def text(self) -> str:
        (size,) = struct.unpack(">H", self._take(2))
        return self._take(size).decode()

    def rows(self, names: Sequence[str]) -> tuple[list[Row], bool]:
        """The rows that are there, at least one unless the task has ended; and whether it has."""
        found: list[Row] = []
        while len(found) < _MOST:
            (size,) = struct.unpack(">i", self._take(_SIZE))
            if size < 0:
                return found, True
            said = json.loads(self._take(size), parse_float=Decimal)
            found.append([said.get(name) for name in names])
            if not self._another():
                break  # what is there is not to wait for what is not
        return found, False

    def _another(self) -> bool:
        """Whether another row, or the end, is there as a whole."""
        if select.select([self._connection], [], [], 0)[0]:
            self._buffer += self._connection.recv(1 << 16)  # nothing: it was closed, as the next read will find
        if len(self._buffer) < _SIZE:
            return False
        (size,) = struct.unpack(">i", self._buffer[:_SIZE])
        return bool(size < 0 or len(self._buffer) >= _SIZE + size)

    def _take(self, size: int) -> bytes:
        while len(self._buffer) < size:
            more = self._connection.recv(1 << 16)
            if not more:
                raise EOFError
            self._buffer += more
        taken, self._buffer = self._buffer[:size], self._buffer[size:]
        return taken


def _utf(text: str) -> bytes:
    """A text as Java's `readUTF` takes it."""
    data = text.encode("ascii", errors="replace")[:_LONGEST]
    return struct.pack(">H", len(data)) + data


def _host(session: SparkSession) -> str:
    return str(session.conf.get("spark.driver.host") or "127.0.0.1")


_classes: dict[str, Any] = {}
"""By Spark's application: the writer's class, which its executors know."""


def _java_writer(session: SparkSession, port: Port) -> Any:
    """A writer for the tasks."""
    jvm: Any = session._jvm
    application = session.sparkContext.applicationId
    if application not in _classes:
        _classes[application] = _compiled(session, jvm)
    gateway: Any = session.sparkContext._gateway
    given = gateway.new_array(jvm.java.lang.Object, 3)
    given[0], given[1], given[2] = port.host, port.number, port.secret
    return _classes[application].getConstructors()[0].newInstance(given)


def _compiled(session: SparkSession, jvm: Any) -> Any:
    """The writer's class, made known to the executors."""
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(_JAVA)
    scratch = session.sparkContext.getConf().get("spark.local.dir")  # a run's own, and gone with its driver
    jar = Path(tempfile.mkdtemp(prefix="row-port-", dir=scratch)) / "row-port.jar"
    with zipfile.ZipFile(jar, "w") as file:
        for name, code in compiler.getBytecodes().items():
            file.writestr(f"{str(name).replace('.', '/')}.class", bytes(code))
    session.sparkContext._jsc.sc().addJar(str(jar))
    return compiler.getClassLoader().loadClass(_CLASS)
