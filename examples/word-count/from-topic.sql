-- How often each word occurs in the lines of a topic; the same flow as from-topic.yaml.
SET flow = 'word-count-topic';
SET description = 'How often each word occurs in the lines of a topic.';

CREATE STREAM lines WITH (connector = 'kafka', topic = 'lines', format = 'text');

CREATE VIEW words AS SELECT explode(split(value, ' ')) AS word FROM lines;

CREATE VIEW counts AS SELECT word, count(*) AS n FROM words GROUP BY word;

CREATE SINK `table`
  WITH (connector = 'sqlite', path = 'counts.db', table = 'topic_counts', key = 'word');
INSERT INTO `table` FROM counts;
