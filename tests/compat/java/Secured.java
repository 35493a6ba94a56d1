import java.io.FileReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.Metric;

/**
 * Writes in transactions and reads as a member of a group, with each file of properties in turn.
 *
 * <p>A line for each file: its topic, the values that were read, and how often producer and consumer
 * have logged in again; or its topic and the error. With test.relogins it goes on until both have
 * done so that often.
 */
public final class Secured {
  private static final String STRING = "org.apache.kafka.common.serialization.String";
  private static final long WITHIN_MS = 30_000;

  private Secured() {}

  public static void main(String[] files) throws Exception {
    for (String file : files) {
      Properties given = new Properties();
      try (FileReader reader = new FileReader(file)) {
        given.load(reader);
      }
      String topic = given.getProperty("test.topic");
      try {
        System.out.println(topic + " " + play(given, topic));
      } catch (KafkaException error) {
        System.out.println(topic + " " + error.getClass().getSimpleName() + ": " + error.getMessage());
      }
    }
  }

  private static String play(Properties given, String topic) {
    double relogins = Double.parseDouble(given.getProperty("test.relogins", "0"));
    long deadline = System.currentTimeMillis() + WITHIN_MS;
    List<String> found = new ArrayList<>();
    try (KafkaProducer<String, String> producer = new KafkaProducer<>(producing(given, topic));
        KafkaConsumer<String, String> consumer = new KafkaConsumer<>(consuming(given, topic))) {
      consumer.subscribe(List.of(topic));
      producer.initTransactions();
      int count = 0;
      boolean isPast = false;
      while (!isPast || found.size() < count) {
        if (System.currentTimeMillis() > deadline) {
          throw new KafkaException("not within " + WITHIN_MS + " ms: " + found);
        }
        if (!isPast) {
          write(producer, topic, "lost", false);
          write(producer, topic, Integer.toString(count++), true);
        }
        for (ConsumerRecord<String, String> each : consumer.poll(Duration.ofMillis(100))) {
          found.add(each.value());
        }
        isPast = again(producer.metrics().values()) >= relogins
            && again(consumer.metrics().values()) >= relogins;
      }
      consumer.commitSync();
    }
    return String.join(",", found);
  }

  private static void write(
      KafkaProducer<String, String> producer, String topic, String value, boolean commits) {
    producer.beginTransaction();
    producer.send(new ProducerRecord<>(topic, 0, null, value));
    producer.flush();
    if (commits) {
      producer.commitTransaction();
    } else {
      producer.abortTransaction();
    }
  }

  private static double again(Iterable<? extends Metric> metrics) {
    for (Metric each : metrics) {
      if (each.metricName().name().equals("successful-reauthentication-total")) {
        return (Double) each.metricValue();
      }
    }
    return 0;
  }

  private static Properties producing(Properties given, String topic) {
    Properties own = new Properties();
    own.putAll(given);
    own.put("key.serializer", STRING + "Serializer");
    own.put("value.serializer", STRING + "Serializer");
    own.put("transactional.id", topic);
    return own;
  }

  private static Properties consuming(Properties given, String topic) {
    Properties own = new Properties();
    own.putAll(given);
    own.put("key.deserializer", STRING + "Deserializer");
    own.put("value.deserializer", STRING + "Deserializer");
    own.put("group.id", topic);
    own.put("auto.offset.reset", "earliest");
    own.put("isolation.level", "read_committed");
    return own;
  }
}
