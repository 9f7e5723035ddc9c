-- Hours worked and hours of break of each driver in every 12 hours; the same flow as flow.yaml.
SET flow = 'drivers-hours';
SET description = 'Hours worked and hours of break of each driver in every 12 hours, against the legal limit.';

CREATE STREAM rides (licence STRING, event STRING, at TIMESTAMP, EVENT TIME at WATERMARK '1 hour')
  WITH (connector = 'files', path = 'rides', format = 'json');

CREATE VIEW shifts AS
  SELECT window_start,
    window_end,
    licence,
    count_if(event = 'pickup') AS pickups,
    count_if(event = 'dropoff') AS dropoffs,
    -- Drop-offs less pickups: the sum of the rides, whatever order the events came in.
    sum(CASE WHEN event = 'dropoff' THEN unix_seconds(at) ELSE -unix_seconds(at) END) AS ridden,
    min(at) AS first_at,
    max(at) AS last_at,
    min_by(event, at) = 'dropoff' AS riding_in,
    max_by(event, at) = 'pickup' AS riding_out
  FROM rides
  GROUP BY licence, tumble(at, '12 hours')
  EMIT CHANGES
  LATE CORRECT FOR '1 day';

CREATE VIEW known AS
  SELECT *,
    -- A ride that began before the window counts from its start; one that goes on, up to the last event.
    CASE WHEN riding_in THEN window_start ELSE first_at END AS begun,
    -- Every pickup has its drop-off; if one is still to come there is no answer yet.
    pickups - dropoffs = CAST(riding_out AS INT) - CAST(riding_in AS INT) AS complete
  FROM shifts;

CREATE VIEW seconds AS
  SELECT *,
    CASE
      WHEN complete THEN ridden - unix_seconds(window_start) * CAST(riding_in AS INT) + unix_seconds(last_at) * CAST(riding_out AS INT) END AS working,
    unix_seconds(last_at) - unix_seconds(begun) AS present
  FROM known;

CREATE VIEW hours AS
  SELECT window_start,
    window_end,
    licence,
    round(working / 3600, 2) AS working_hours,
    round((present - working) / 3600, 2) AS break_hours,
    working > 10 * 3600 AS over_limit
  FROM seconds;

CREATE SINK `table`
  WITH (
    connector = 'sqlite',
    table = 'hours',
    key = ['window_start', 'window_end', 'licence'],
    path = 'hours.db'
  );
INSERT INTO `table` FROM hours;
