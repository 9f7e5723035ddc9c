-- The same flow as flow.yaml.
SET flow = 'web-sessions';
SET description = 'The visits of a shop\'s pages as sessions, how far each went towards buying, and the funnel of every hour.';

CREATE STREAM clicks (EVENT TIME at WATERMARK '1 minute')
  WITH (connector = 'generator', kind = 'clicks', rate = 5.0, limit = 20000);

CREATE VIEW visits AS
  SELECT window_start,
    window_end,
    session,
    max(user) AS `user`,
    count_if(action = 'view') AS pages,
    min_by(page, at) AS landing,
    min_by(referrer, at) AS referrer,
    unix_seconds(max(at)) - unix_seconds(min(at)) AS seconds,
    -- What was done, in the order of time: a purchase counts only behind a cart that is behind a click.
    array_join(
      transform(array_sort(collect_list(struct(at, action))), step -> step.action),
      ' '
    ) AS path
  FROM clicks
  GROUP BY session, session(at, '5 minutes');

CREATE VIEW staged AS
  SELECT *,
    path RLIKE 'click' AS clicked,
    path RLIKE 'click.*cart' AS filled,
    path RLIKE 'click.*cart.*buy' AS bought
  FROM visits;

CREATE VIEW funnel AS
  SELECT window_start,
    window_end,
    referrer,
    count(*) AS visits,
    count_if(clicked) AS clicked,
    count_if(filled) AS filled,
    count_if(bought) AS bought,
    round(count_if(bought) / count(*), 3) AS conversion,
    round(avg(pages), 1) AS pages
  FROM staged
  GROUP BY referrer, tumble('1 hour');

CREATE SINK sessions
  WITH (
    connector = 'sqlite',
    table = 'visits',
    key = ['session', 'window_start'],
    path = 'visits.db'
  );
INSERT INTO sessions FROM staged;

CREATE SINK hourly
  WITH (
    connector = 'sqlite',
    table = 'funnel',
    key = ['window_start', 'referrer'],
    path = 'visits.db'
  );
INSERT INTO hourly FROM funnel;
