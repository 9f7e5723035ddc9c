-- How often each word occurs in a text file; the same flow as from-file.yaml.
SET flow = 'word-count';
SET description = 'How often each word occurs in a text file.';

CREATE STREAM lines WITH (connector = 'files', path = 'words.txt', format = 'text');

CREATE VIEW words AS SELECT explode(split(value, ' ')) AS word FROM lines;

CREATE VIEW counts AS SELECT word, count(*) AS n FROM words GROUP BY word;

CREATE SINK `table` WITH (connector = 'sqlite', path = 'counts.db', table = 'counts', key = 'word');
INSERT INTO `table` FROM counts;
