-- Every 5 seconds, the count of tweets over the last 10 seconds; the same flow as flow.yaml.
SET flow = 'tweets-last-ten-seconds';
SET description = 'Every 5 seconds, the count of tweets over the last 10 seconds.';

CREATE STREAM tweets (EVENT TIME at WATERMARK '10 seconds')
  WITH (connector = 'generator', kind = 'tweets', rate = 20, limit = 1200);

CREATE VIEW counts AS
  SELECT window_start, window_end, count(*) AS tweets
  FROM tweets
  GROUP BY hop(at, '10 seconds', '5 seconds');

CREATE SINK screen WITH (connector = 'console');
INSERT INTO screen FROM counts;
