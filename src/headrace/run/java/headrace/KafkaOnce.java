package headrace;

import java.io.Serializable;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.types.StructType;
import scala.Option;

/**
 * Exactly-once into Kafka: what a task has of a batch, and a mark "batch N is written", in one transaction.
 *
 * <p>The producer's transactional id is the writer's name and the task's. The mark is the offset that a consumer group of
 * that name has committed, so it is there if and only if the rows are, and is asked for, not looked for.
 *
 * <p>The order makes it safe against a zombie: the producer is initialised first, which ends whatever an older producer of
 * the same id had open and shuts it out; only then is the mark asked for. It is asked for by a task whose producer is new.
 * The driver remembers which process last wrote for a task; a task in that process goes on with the producer it has.
 */
public final class KafkaOnce implements Serializable {

  private static final long serialVersionUID = 1L;

  /** Milliseconds a transaction may take; the broker ends it then. */
  private static final String LONGEST = "600000";

  private static final String PROCESS = UUID.randomUUID().toString();
  private static final Map<String, Open> OPEN = new ConcurrentHashMap<>();

  /** A producer of this process, ready for its next transaction, and the last batch its task has the mark of. */
  private record Open(KafkaProducer<byte[], byte[]> producer, long last) {}

  /** The place whose committed offset is the mark; nothing is ever written there, so that no lag is seen. */
  private final TopicPartition place;

  private final Map<String, String> settings;
  private final Map<String, String> tuned;
  private final String topic;
  private final String who;
  private final long batch;

  private KafkaOnce(
      String marks, Map<String, String> settings, Map<String, String> tuned, String topic, String who, long batch) {
    this.place = new TopicPartition(marks, 0);
    this.settings = settings;
    this.tuned = tuned;
    this.topic = topic;
    this.who = who;
    this.batch = batch;
  }

  /**
   * Writes a batch; for each task that had rows: its name, its process, how many rows were written, and skipped.
   *
   * @param marks the topic of the marks, and the first part of their groups' names
   * @param names of the tasks, by their number
   * @param known which process wrote for each task last
   */
  public static List<String> write(
      Dataset<Row> frame,
      String marks,
      Map<String, String> settings,
      Map<String, String> tuned,
      String topic,
      String who,
      long batch,
      List<String> names,
      Map<String, String> known) {
    KafkaOnce part = new KafkaOnce(marks, new HashMap<>(settings), new HashMap<>(tuned), topic, who, batch);
    List<String> tasks = new ArrayList<>(names);
    Map<String, String> processes = new HashMap<>(known);
    StructType schema = frame.schema();
    Columns columns = new Columns(at(schema, "key"), at(schema, "value"), at(schema, "headers"));
    QueryExecution execution = frame.queryExecution();
    return SQLExecution.withNewExecutionId(
        execution,
        Option.apply("kafka"),
        () ->
            execution
                .toRdd()
                .toJavaRDD()
                .mapPartitionsWithIndex(
                    (number, rows) -> {
                      String task = tasks.get(number);
                      return part.write(rows, columns, task, PROCESS.equals(processes.get(task))).iterator();
                    },
                    false)
                .collect());
  }

  private static int at(StructType schema, String name) {
    return schema.getFieldIndex(name).isDefined() ? schema.fieldIndex(name) : -1;
  }

  /** Where the columns of a record are; -1: there is none. */
  private record Columns(int key, int value, int headers) implements Serializable {
    ProducerRecord<byte[], byte[]> record(String topic, InternalRow row) {
      byte[] name = key < 0 || row.isNullAt(key) ? null : row.getBinary(key);
      byte[] content = row.isNullAt(value) ? null : row.getBinary(value);
      return new ProducerRecord<>(topic, null, name, content, headers < 0 ? null : headers(row));
    }

    private Iterable<Header> headers(InternalRow row) {
      List<Header> made = new ArrayList<>();
      ArrayData given = row.isNullAt(headers) ? null : row.getArray(headers);
      for (int index = 0; given != null && index < given.numElements(); index++) {
        InternalRow pair = given.getStruct(index, 2);
        made.add(new RecordHeader(pair.getUTF8String(0).toString(), pair.isNullAt(1) ? null : pair.getBinary(1)));
      }
      return made;
    }
  }

  private List<String> write(Iterator<InternalRow> rows, Columns columns, String task, boolean ours) {
    if (!rows.hasNext()) {
      return List.of(); // without rows no mark is needed
    }
    String id = who + "/" + task;
    Open open = ours ? OPEN.get(id) : null;
    if (open == null) {
      close(id);
      open = initialised(id);
      OPEN.put(id, open);
    }
    long count = 0;
    if (open.last >= batch) {
      for (; rows.hasNext(); rows.next()) {
        count++;
      }
      return List.of(task, PROCESS, "0", Long.toString(count));
    }
    boolean done = false;
    try {
      KafkaProducer<byte[], byte[]> producer = open.producer;
      producer.beginTransaction();
      for (; rows.hasNext(); count++) {
        producer.send(columns.record(topic, rows.next()));
      }
      OffsetAndMetadata mark = new OffsetAndMetadata(batch + 1);
      producer.sendOffsetsToTransaction(Map.of(place, mark), new ConsumerGroupMetadata(group(id)));
      producer.commitTransaction();
      OPEN.put(id, new Open(producer, batch));
      done = true;
    } finally {
      if (!done) {
        close(id); // the transaction is left to be undone by the next producer of this id
      }
    }
    return List.of(task, PROCESS, Long.toString(count), "0");
  }

  private static void close(String id) {
    Open open = OPEN.remove(id);
    if (open != null) {
      open.producer.close(Duration.ZERO);
    }
  }

  private String group(String id) {
    return place.topic() + "/" + id;
  }

  /** A producer that has shut out its predecessors, and the last batch that is marked. */
  private Open initialised(String id) {
    Map<String, Object> producing = new HashMap<>(settings);
    producing.put("transactional.id", id);
    producing.put("transaction.timeout.ms", LONGEST);
    producing.putAll(tuned);
    ByteArraySerializer bytes = new ByteArraySerializer();
    KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(producing, bytes, bytes);
    boolean done = false;
    try {
      producer.initTransactions();
      Open made = new Open(producer, lastMark(id));
      done = true;
      return made;
    } finally {
      if (!done) {
        producer.close(Duration.ZERO);
      }
    }
  }

  /** The last batch that is marked, once no transaction of the id is open any more; -1 if there is none. */
  private long lastMark(String id) {
    Map<String, Object> consuming = new HashMap<>(settings);
    consuming.put("group.id", group(id));
    consuming.put("enable.auto.commit", "false");
    consuming.put("isolation.level", "read_committed");
    ByteArrayDeserializer bytes = new ByteArrayDeserializer();
    try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(consuming, bytes, bytes)) {
      OffsetAndMetadata mark = consumer.committed(Set.of(place)).get(place);
      return mark == null ? -1 : mark.offset() - 1;
    }
  }
}
