CREATE TABLE names (key TEXT PRIMARY KEY, name TEXT);
INSERT INTO names VALUES ('a', 'Ann'), ('b', 'Bob');
