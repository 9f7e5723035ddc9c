-- How often each hashtag is used together with the ones we follow; the same flow as flow.yaml.
SET flow = 'hashtag-velocity';
SET description = 'How often each hashtag is used together with the ones we follow, second by second.';

CREATE STREAM tweets (
  id BIGINT,
  hashtags ARRAY<STRING>,
  at TIMESTAMP,
  EVENT TIME at WATERMARK '2 seconds'
)
  WITH (connector = 'kafka', topic = 'tweets', format = 'json');

CREATE VIEW followed AS
  SELECT *
  FROM tweets
  WHERE arrays_overlap(
    hashtags,
    array('ai', 'data', 'music', 'coffee', 'travel', 'space', 'football', 'climate')
  );

CREATE VIEW tags AS SELECT *, explode(hashtags) AS tag FROM followed;

CREATE VIEW others AS
  SELECT *
  FROM tags
  WHERE tag NOT IN ('ai', 'data', 'music', 'coffee', 'travel', 'space', 'football', 'climate');

CREATE VIEW velocity AS
  SELECT window_start, window_end, tag, count(*) AS n
  FROM others
  GROUP BY tag, tumble(at, '1 second')
  EMIT CHANGES;

CREATE SINK `table`
  WITH (connector = 'sqlite', path = 'velocity.db', table = 'velocity', key = [window_start, tag]);
INSERT INTO `table` FROM velocity;
