import com.fasterxml.jackson.annotation.JsonIgnoreProperties;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.TimeWindows;

/** The works in Kafka Streams, with as many threads as there are cores. */
public final class KafkaStreamsJob {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final Serde<String> TEXT = Serdes.String();

  @JsonIgnoreProperties(ignoreUnknown = true)
  public static final class Event {
    public String user, page, type, ts;
    public double amount;
  }

  @JsonIgnoreProperties(ignoreUnknown = true)
  public static final class Live {
    public String k, type;
    public long x;
    public double t;
  }

  public record Sum(long n, double total) {}

  public record Window(long window_start, String page, long n, double total) {}

  public record Bought(String user, String page, double amount) {}

  public record Counted(String k, long n, double t) {}

  public record Kept(String k, long x, double t) {}

  private interface Failing<A, B> {
    B apply(A given) throws Exception;
  }

  private static <A, B> B sure(Failing<A, B> function, A given) {
    try {
      return given == null ? null : function.apply(given);
    } catch (Exception error) {
      throw new IllegalStateException(error);
    }
  }

  private static <T> Serde<T> json(Class<T> kind) {
    Serializer<T> out = (topic, value) -> sure(JSON::writeValueAsBytes, value);
    Deserializer<T> in = (topic, bytes) -> sure(b -> JSON.readValue(b, kind), bytes);
    return Serdes.serdeFrom(out, in);
  }

  private static Serde<Sum> sums() {
    Serializer<Sum> out =
        (topic, s) -> s == null ? null : ByteBuffer.allocate(16).putLong(s.n).putDouble(s.total).array();
    Deserializer<Sum> in = (topic, bytes) -> {
      if (bytes == null) return null;
      ByteBuffer buffer = ByteBuffer.wrap(bytes);
      return new Sum(buffer.getLong(), buffer.getDouble());
    };
    return Serdes.serdeFrom(out, in);
  }

  private final AtomicLong read = new AtomicLong(), passed = new AtomicLong(), done = new AtomicLong();
  private final AtomicLong first = new AtomicLong(), last = new AtomicLong();

  private void began() {
    if (read.getAndIncrement() == 0) first.set(System.currentTimeMillis());
  }

  private void finished() {
    done.incrementAndGet();
    last.set(System.currentTimeMillis());
  }

  private void bounded(StreamsBuilder builder, String work, String topic, String out) {
    KStream<String, Event> events = builder
        .stream(topic, Consumed.with(TEXT, json(Event.class)).withTimestampExtractor(
            (record, before) -> Instant.parse(((Event) record.value()).ts).toEpochMilli()))
        .peek((key, event) -> began());
    if (work.equals("w1")) {
      events.filter((key, event) -> !event.type.equals("view"))
          .map((key, event) -> {
            passed.incrementAndGet();
            return KeyValue.pair(event.page, event.amount);
          })
          .groupByKey(Grouped.with(TEXT, Serdes.Double()))
          .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofSeconds(10), Duration.ofSeconds(5)))
          .aggregate(() -> new Sum(0, 0), (page, amount, held) -> {
            finished();
            return new Sum(held.n + 1, held.total + amount);
          }, Materialized.with(TEXT, sums()))
          .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()))
          .toStream()
          .map((key, sum) -> KeyValue.pair(
              key.key(), new Window(key.window().start(), key.key(), sum.n, sum.total)))
          .to(out, Produced.with(TEXT, json(Window.class)));
    } else {
      events.peek((key, event) -> {
            passed.incrementAndGet();
            finished();
          })
          .filter((key, event) -> event.type.equals("buy"))
          .mapValues(event -> new Bought(event.user, event.page, event.amount))
          .to(out, Produced.with(TEXT, json(Bought.class)));
    }
  }

  private static void live(StreamsBuilder builder, String work, String topic, String out) {
    KStream<String, Live> events = builder.stream(topic, Consumed.with(TEXT, json(Live.class)));
    if (work.equals("keyed")) {
      events.groupByKey(Grouped.with(TEXT, json(Live.class)))
          .aggregate(() -> new Counted(null, 0, 0),
              (key, event, held) -> new Counted(key, held.n + 1, event.t),
              Materialized.with(TEXT, json(Counted.class)))
          .toStream()
          .to(out, Produced.with(TEXT, json(Counted.class)));
    } else {
      events.filter((key, event) -> event.type.equals("buy"))
          .mapValues(event -> new Kept(event.k, event.x, event.t))
          .to(out, Produced.with(TEXT, json(Kept.class)));
    }
  }

  private void run(JsonNode job, int round) throws InterruptedException {
    String work = job.get("work").asText();
    boolean live = work.equals("keyed") || work.equals("stateless");
    String name = job.get("tag").asText() + "-" + round;
    Properties settings = new Properties();
    settings.put("application.id", name);
    settings.put("bootstrap.servers", job.get("bootstrap").asText());
    settings.put("num.stream.threads", job.get("cores").asInt());
    settings.put("state.dir", Path.of(job.get("folder").asText(), "state").toString());
    settings.put("auto.offset.reset", "earliest");
    settings.put("statestore.cache.max.bytes", live ? 0 : 64 << 20);
    settings.put("commit.interval.ms", live ? 1000 : 5000);
    settings.put("producer.linger.ms", live ? 0 : 50);
    settings.put("producer.batch.size", 1 << 18);
    settings.put("producer.compression.type", live ? "none" : "lz4");
    settings.put("max.poll.records", 5000);
    settings.put("consumer.fetch.max.wait.ms", live ? 5 : 500);
    StreamsBuilder builder = new StreamsBuilder();
    String topic = job.get("topic").asText(), out = job.get("out").asText() + "-" + round;
    if (live) live(builder, work, topic, out);
    else bounded(builder, work, topic, out);
    KafkaStreams streams = new KafkaStreams(builder.build(), settings);
    Thread ending = new Thread(() -> streams.close(Duration.ofSeconds(5)));
    Runtime.getRuntime().addShutdownHook(ending);
    streams.start();
    if (live) Thread.sleep(Long.MAX_VALUE);
    long total = job.get("total").asLong();
    while (read.get() < total || done.get() < passed.get()) {
      if (streams.state() == KafkaStreams.State.ERROR) throw new IllegalStateException("the streams failed");
      // A record that came too late for its window is passed and never done; the answer will show it.
      if (read.get() >= total && System.currentTimeMillis() - last.get() > 10_000) break;
      Thread.sleep(20);
    }
    streams.close(Duration.ofSeconds(20));
    Runtime.getRuntime().removeShutdownHook(ending);
    System.out.printf(
        "%nRESULT {\"round\":%d,\"first\":%.3f,\"last\":%.3f,\"read\":%d}%n",
        round, first.get() / 1e3, last.get() / 1e3, read.get());
  }

  public static void main(String[] arguments) throws Exception {
    JsonNode job = JSON.readTree(System.getenv("BENCH_JOB"));
    for (int round = 0; round < job.get("rounds").asInt(); round++) new KafkaStreamsJob().run(job, round);
  }
}
