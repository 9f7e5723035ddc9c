"""Our analysis of an expression and Spark's own give the same answer, over a corpus."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from headrace.expressions.expression import Expression, ExpressionSyntaxError
from headrace.expressions.functions import functions
from headrace.expressions.spark import from_spark_schema, from_spark_type, spark_schema
from headrace.expressions.tree import Call
from headrace.expressions.typing import type_of
from headrace.model import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = """
b boolean, t tinyint, h smallint, i int, l bigint, f float, d double, dec decimal(10,2), big decimal(38,10),
s string, bin binary, dt date, ts timestamp, ntz timestamp_ntz, ai array<int>, astr array<string>,
ast array<struct<x:int,y:string>>, aa array<array<int>>, mi map<string,int>, mk map<int,double>,
st struct<x:int,y:string,z:struct<w:double>>, v variant
"""

SCALAR = """
i + 1
i + l
t + h
t + 1
i + f
l + f
f + f
f + d
dec + i
dec + 1
dec + l
dec + dec
dec - big
dec * 2
dec * 2L
dec * dec
dec * big
dec / 3
dec / dec
dec / i
big / big
big * big
big + big
dec % 3
dec % dec
i / 2
i / l
t / t
f / f
d / i
i % 2
i % d
i div 2
dec div 2
d div 2
l div i
i + 1.5
i * 0.05
l * 1.5
i + 1.5D
i + 1e3
dec + 1.5D
dec + f
-i
-dec
-s
+s
-dt
~i
~l
~d
~s
i & l
i | 1
i ^ t
i & s
i & d
i << 2
l >> 1
l >>> 2
t << 1
s + 1
s + 1.5
s + l
s + d
s + s
s * 2
s / 2
s % 2
s + dec
s - dt
dt + 1
dt + i
dt + l
dt + t
1 + dt
dt - 1
dt - dt
ts - ts
ts - dt
dt - ts
ntz - ts
ts + 1
dt + INTERVAL '1' DAY
dt + INTERVAL '1' HOUR
dt - INTERVAL '3' MONTH
dt + INTERVAL 1 WEEK
ts + INTERVAL '1' DAY
ts - INTERVAL '1-2' YEAR TO MONTH
ntz + INTERVAL 90 SECONDS
INTERVAL '1' DAY + ts
INTERVAL '1' DAY + INTERVAL '2' HOUR
INTERVAL '1' DAY * 2
2 * INTERVAL '1' DAY
INTERVAL '1' DAY / 2
INTERVAL '1' DAY + INTERVAL '1' MONTH
INTERVAL '1 02:03:04.5' DAY TO SECOND
INTERVAL '2-3' YEAR TO MONTH
s + INTERVAL '1' DAY
ts - s
b + 1
b + b
bin + 1
ai + 1
null + 1
null + null
null + s
i = 1
i = l
i = d
i = s
s = 1
s = 1.5
s = dt
s = ts
s = b
s = bin
i = b
dt = ts
ts = ntz
dt = i
b = 1
ai = ai
ai = array(1L)
mi = mi
st = st
v = v
st = struct(1 as x, 'a' as y, struct(1D as w) as z)
i <=> null
i <> l
s < 'b'
ai < ai
mi < mi
dec > 1
dec = d
i in (1, 2)
i in (1, 2L, 3.5)
i in ('1', '2')
i in (s)
s in (1, 2)
b in (1)
dt in ('2024-01-01')
i between 1 and 10
i between 1 and s
s between 'a' and 'b'
s between 1 and 2
ts between '2024-01-01' and '2024-01-02'
b between 1 and 2
b and b
b or s
s and s
b and i
b and null
not b
not s
not i
not null
b is true
i is true
b is not false
i is null
v is null
i is distinct from l
i is distinct from b
s like 'a%'
s like 'a!%' escape '!'
i like '1%'
bin like 'a'
s rlike '^a'
s ilike 'A%'
s not like any ('a', 'b')
s like all ('a', 'b')
case when b then 1 else 2L end
case when b then 1 end
case when b then i else s end
case when b then i else b end
case when b then dt else ts end
case when i then 1 end
case when s then 1 end
case when b then 1 else null end
case when b then dec else i end
case when b then dec else l end
case when b then dec else d end
case when b then ai else array(1.5) end
case i when 1 then 'a' else 'b' end
case i when 'a' then 1 end
if(b, 1, 2.5)
if(i, 1, 2)
if(null, 1, 2)
if(b, i)
coalesce(i, l)
coalesce(i, s)
coalesce(null, null)
coalesce(i, b)
coalesce(dec, 1)
coalesce(big, l)
coalesce(f, i)
coalesce(f, dec)
coalesce(dt, 'x')
coalesce()
ifnull(i, 0)
nvl(s, 'x')
nvl2(i, 1, 2L)
nullif(i, 0)
nullif(s, 1)
nullif(i, b)
greatest(i, l, 3)
greatest(i)
least(s, 'a')
least(i, b)
greatest(dec, 1.555)
isnull(i)
isnotnull(s)
isnan(d)
isnan(i)
nanvl(d, 0)
cast(i as string)
cast(s as int)
cast(s as date)
cast(b as int)
cast(i as boolean)
cast(dt as int)
cast(ts as bigint)
cast(i as timestamp)
cast(l as timestamp)
cast(i as date)
cast(ntz as bigint)
cast(d as decimal(10,2))
cast(bin as string)
cast(s as binary)
cast(i as binary)
cast(d as binary)
cast(b as binary)
cast(b as timestamp)
cast(ts as date)
cast(dt as timestamp_ntz)
cast(ai as array<string>)
cast(ai as string)
cast(st as struct<a:string,b:string,c:struct<w:int>>)
cast(mi as map<string,string>)
cast(mi as map<int,int>)
cast(s as array<int>)
cast(v as int)
cast(st as string)
cast(s as interval day to second)
cast(i as interval day)
try_cast(s as int)
try_cast(i as binary)
try_cast(ai as array<string>)
s::int
int(s)
string(i)
double(s)
decimal(s)
date(s)
timestamp(s)
boolean(s)
bigint(d)
abs(i)
abs(s)
abs(dec)
abs(b)
abs(INTERVAL '1' DAY)
sign(i)
sqrt(i)
sqrt(s)
sqrt(b)
exp(d)
ln(dec)
log(10)
log(2, 8)
log10(i)
pow(i, 2)
power(s, 2)
pmod(i, 3)
pmod(dec, 3)
mod(l, i)
round(d)
round(d, 2)
round(dec)
round(dec, 1)
round(dec, 5)
round(dec, -1)
round(i, -1)
round(s, 1)
round(d, i)
bround(dec, 1)
ceil(d)
ceil(dec)
ceil(i)
ceil(s)
ceil(dec, 1)
floor(d)
floor(1.5)
floor(dec, 1)
floor(d, 1)
factorial(5)
hex(i)
hex(s)
hex(bin)
hex(d)
unhex(s)
conv('100', 2, 10)
bin(i)
width_bucket(d, 0, 10, 5)
bit_count(i)
bit_count(b)
bit_count(s)
shiftleft(i, 2)
shiftright(l, 1)
shiftleft(s, 1)
pi()
e()
upper(s)
upper(i)
upper(b)
upper(ai)
upper(bin)
upper(s, s)
lower(dt)
initcap(s)
length(s)
length(i)
length(bin)
length(ai)
char_length(s)
octet_length(bin)
bit_length(s)
trim(s)
trim(both 'x' from s)
ltrim(s)
rtrim('x', s)
btrim(s, 'x')
substring(s, 1, 2)
substring(s from 1 for 2)
substr(s, 2)
substring(bin, 1, 2)
substring(i, 1, 2)
substring(s, 'a')
substring(s, l)
left(s, 2)
right(s, 2)
left(i, 1)
substring_index(s, '.', 1)
concat(s, 'a', i)
concat(s)
concat()
concat(ai, ai)
concat(ai, astr)
concat(ai, 1)
concat(bin, bin)
concat(bin, s)
concat(mi, s)
s || i
bin || bin
ai || array(1L)
concat_ws(',', s, 'b')
concat_ws(',', astr, s)
concat_ws(',', ai)
concat_ws(',', i)
concat_ws(',')
repeat(s, 3)
space(2)
lpad(s, 5, ' ')
rpad(s, 5)
lpad(i, 5, '0')
replace(s, 'a', 'b')
replace(s, 'a')
translate(s, 'a', 'b')
overlay(s placing 'x' from 1 for 2)
instr(s, 'a')
locate('a', s)
locate('a', s, 2)
position('a' in s)
startswith(s, 'a')
endswith(s, 'a')
contains(s, 'a')
contains(i, 1)
startswith(bin, bin)
ascii(s)
chr(65)
regexp_replace(s, 'a', 'b')
regexp_extract(s, '(a)', 1)
regexp_extract_all(s, '(a)', 1)
regexp_count(s, 'a')
regexp_substr(s, 'a')
regexp_like(s, 'a')
split(s, ',')
split(s, ',', 2)
split_part(s, ',', 1)
levenshtein(s, 'a')
soundex(s)
format_number(d, 2)
format_string('%d %s', i, s)
base64(bin)
base64(s)
unbase64(s)
encode(s, 'UTF-8')
decode(bin, 'UTF-8')
md5(s)
md5(bin)
md5(i)
sha1(s)
sha2(s, 256)
crc32(s)
hash(i, s)
xxhash64(i, s, ai)
hash(mi)
typeof(i)
elt(1, s, 'b')
find_in_set('a', s)
reverse(s)
reverse(ai)
reverse(i)
url_encode(s)
parse_url(s, 'HOST')
date_add(dt, 1)
date_add(s, 1)
date_add(ts, 1)
date_add(dt, l)
date_sub(dt, i)
dateadd(dt, 1)
datediff(dt, dt)
datediff(ts, s)
datediff(day, ts, ts)
timestampadd(HOUR, 1, ts)
timestampadd(MONTH, 1, dt)
timestampdiff(MINUTE, ts, ts)
dateadd(MONTH, 1, ntz)
add_months(dt, 1)
months_between(ts, ts)
last_day(dt)
next_day(dt, 'MO')
trunc(dt, 'MM')
trunc(ts, 'MM')
date_trunc('DAY', ts)
date_trunc('DAY', dt)
date_trunc('DAY', s)
date_trunc('DAY', i)
year(dt)
year(ts)
year(s)
year(i)
month(dt)
quarter(ts)
day(dt)
dayofweek(dt)
dayofyear(dt)
weekday(dt)
weekofyear(dt)
hour(ts)
hour(ntz)
hour(dt)
hour(s)
minute(ts)
second(ts)
extract(year from ts)
extract(second from ts)
extract(dow from dt)
extract(fortnight from dt)
extract(day from INTERVAL '1' DAY)
extract(hour from INTERVAL '1 02:03:04' DAY TO SECOND)
date_part('week', ts)
date_part('minute', s)
date_format(ts, 'yyyy')
date_format(dt, 'yyyy')
date_format(s, 'yyyy')
unix_date(dt)
unix_seconds(ts)
unix_millis(ts)
unix_micros(ts)
unix_timestamp(ts)
unix_timestamp(s, 'yyyy')
to_unix_timestamp(s)
from_unixtime(l)
from_unixtime(i, 'yyyy')
timestamp_seconds(l)
timestamp_seconds(d)
timestamp_millis(l)
timestamp_millis(d)
timestamp_micros(i)
to_date(s)
to_date(s, 'yyyy')
to_date(ts)
to_date(i)
to_timestamp(s)
to_timestamp(s, 'yyyy')
to_timestamp(dt)
to_timestamp(i)
to_timestamp(b)
to_timestamp_ntz(s)
make_date(2024, 1, 1)
make_date(i, i, s)
make_timestamp(2024, 1, 1, 0, 0, 0)
make_timestamp(2024, 1, 1, 0, 0, 1.5)
make_dt_interval(1, 2)
make_ym_interval(1, 2)
from_utc_timestamp(ts, 'UTC')
to_utc_timestamp(s, 'UTC')
date_from_unix_date(1)
dayname(dt)
monthname(dt)
array(1, 2)
array(1, 2L)
array(1, 'a')
array(1, true)
array()
array(null, 1)
array(i, dec)
array_repeat(s, 2)
sequence(1, 5)
sequence(1, 5, 2)
sequence(dt, dt, INTERVAL '1' DAY)
sequence(ts, ts, INTERVAL '1' HOUR)
sequence(s, s)
sequence(d, d)
size(ai)
size(mi)
size(s)
cardinality(ai)
array_size(ai)
element_at(ai, 1)
element_at(mi, 'a')
element_at(mi, 1)
element_at(mk, 1)
element_at(ai, 'a')
element_at(ai, l)
element_at(s, 1)
get(ai, 0)
array_contains(ai, 1)
array_contains(ai, 1L)
array_contains(ai, 'a')
array_contains(astr, 'a')
array_contains(astr, 1)
array_contains(s, 'a')
array_position(ai, 1)
array_append(ai, 1)
array_append(ai, 1L)
array_prepend(astr, 'a')
array_remove(ai, 1)
array_distinct(ai)
array_distinct(s)
array_compact(ai)
array_union(ai, ai)
array_union(ai, array(1L))
array_union(ai, astr)
array_intersect(ai, ai)
array_except(ai, ai)
arrays_overlap(ai, ai)
array_join(astr, ',')
array_join(ai, ',')
array_join(aa, ',')
array_max(ai)
array_min(astr)
array_max(s)
array_sort(ai)
array_sort(ai, (x, y) -> x - y)
array_sort(ai, (x, y) -> 'a')
sort_array(ai)
sort_array(ai, false)
flatten(aa)
flatten(ai)
slice(ai, 1, 2)
arrays_zip(ai, astr)
transform(ai, x -> x + 1)
transform(ai, (x, k) -> x + k)
transform(ai, x -> s)
transform(s, x -> x)
transform(ai, x -> x.y)
transform(ast, x -> x.y)
transform(ai, x -> z)
filter(ai, x -> x > 1)
filter(ai, x -> x)
filter(ai, (x, k) -> k > 1)
exists(ai, x -> x > 1)
forall(ai, x -> x > i)
aggregate(ai, 0, (acc, x) -> acc + x)
aggregate(ai, 0L, (acc, x) -> acc + x)
aggregate(ai, 0, (acc, x) -> acc + x * 1.5)
aggregate(ai, 0, (acc, x) -> acc + x, acc -> acc * 1.5D)
reduce(ai, 0, (acc, x) -> acc + x)
zip_with(ai, astr, (x, y) -> concat(x, y))
map_filter(mi, (k, v) -> v > 1)
transform_keys(mi, (k, v) -> upper(k))
transform_values(mi, (k, v) -> v * 1.5D)
map_zip_with(mi, mi, (k, a, c) -> a + c)
map('a', 1)
map('a', 1, 'b', 2L)
map('a', 1, 'b')
map('a', 1, 2, 3)
map()
map_from_arrays(astr, ai)
map_from_entries(ast)
map_from_entries(ai)
map_keys(mi)
map_values(mi)
map_entries(mi)
map_concat(mi, mi)
map_contains_key(mi, 'a')
map_keys(s)
str_to_map(s)
str_to_map(s, ',', ':')
struct(i, s)
struct(i as x, 1, upper(s))
struct(st.x, ai[0])
named_struct('a', 1, 'b', s)
named_struct('a', 1, 'b')
named_struct(s, 1)
st.x
st.z.w
st.q
st.x.y
ast.x
ast.y
ast[0].x
ast[0].q
mi.a
mk.a
i.a
s.a
ai[0]
ai[l]
ai['a']
ai[1.5]
ai[b]
mi['a']
mi[1]
mk[1]
mk['a']
mk[1.5]
st['x']
st['q']
st[0]
i[0]
aa[0][1]
get_json_object(s, '$.a')
get_json_object(i, '$.a')
json_array_length(s)
json_object_keys(s)
to_json(st)
to_json(mi)
to_json(ai)
to_json(s)
from_json(s, 'a INT, b STRING')
from_json(s, 'array<int>')
from_json(i, 'a INT')
from_json(s, 'a FOO')
parse_json(s)
variant_get(v, '$.a', 'int')
variant_get(v, '$.a')
try_parse_json(s)
try_add(i, 1)
try_add(i, s)
try_divide(i, 2)
try_divide(dec, 2)
try_subtract(dt, 1)
try_multiply(i, 2)
try_element_at(ai, 1)
try_to_timestamp(s)
equal_null(i, l)
zeroifnull(l)
nullifzero(i)
nosuch(i)
nosuch
i + nosuch
upper(nosuch)
I + L
`i` + 1
x'1F'
1L
1S
1Y
1.5F
1.5D
1.50
0.05
100000000000
100000000000000000000
-5
'a' 'b'
'it''s'
r'a\\d'
"dq"
null
true
date '2024-01-31'
timestamp '2024-01-31 12:00:00'
timestamp '2024-01-31 12:00:00+02:00'
timestamp_ntz '2024-01-31 12:00:00'
i = 1 = true
not i = 1
-i * 2
- -1
1 - -1
i + l * 2 - d / 3
(i + l) * 2
i = 1 and l = 2 or b
i & 3 = 1
i | 1 << 2
i = l is null
s || 'a' = 'xa'
luhn_check(s)
mask(s)
to_char(dec, '999.99')
to_number(s, '999.99')
sentences(s)
bitmap_bit_position(l)
random_nosuch()
nvl(ai, array())
coalesce(ai, array(1L))
coalesce(mi, map('a', 1L))
coalesce(st, null)
degrees(d)
hypot(3, 4)
cbrt(i)
atan2(d, d)
rint(d)
bit_get(i, 0)
split(i, ',')
endswith(s, i)
to_csv(st)
date_add(dt, s)
date_add(dt, '1')
date_add(dt, null)
exists(astr, x -> x)
exists(ai, x -> null)
s div 2
f div 2
null div 2
i div null
null / null
null = null
null and null
concat(null, null)
concat(null, ai)
greatest(null, 1)
sum
ai[null]
element_at(ai, t)
element_at(mi, null)
array_contains(ai, dec)
array_append(ai, 'a')
array_position(ai, s)
map_contains_key(mk, 1L)
mk[l]
mk[t]
map_concat(mi, map('a', 1L))
if(b, ai, astr)
coalesce(ai, astr)
array(ai, astr)
array(struct(1 as a), struct(1L as a))
array(struct(1 as a), struct(1L as b))
array(struct(1 as a), struct(1 as A))
array(map('a', 1), map(1, 1))
i in ()
st in (st)
ai in (array(1))
mi in (mi)
array_sort(aa)
array_sort(array(mi))
sort_array(array(mi))
array_max(aa)
array_distinct(array(mi))
round(null)
round(d, null)
round(big, 20)
round(big, -40)
ceil(big)
ceil(null)
floor(d, -1)
round(1.555, 2)
log(s, d)
abs(null)
-null
- (i > 1)
+i
+b
not (i = 1)
upper(null)
length(null)
length(v)
hour(i)
year(null)
date_trunc(1, ts)
date_part('second', dt)
date_part('quarter', ntz)
date_part(s, ts)
timestampdiff(YEAR, dt, s)
timestampadd(QUARTER, 1, s)
timestampadd(DAY, s, ts)
dt - s
s - ts
ts - ntz
dt - ntz
dt + null
null + dt
null - dt
ts + null
ts - null
ts - INTERVAL '1' DAY - ts
(ts - ts) / 2
(ts - ts) * 1.5
(ts - ts) > INTERVAL '1' HOUR
(dt - dt) = INTERVAL '1' DAY
INTERVAL '1' DAY > '1'
INTERVAL '1' MONTH * s
INTERVAL '1' DAY div INTERVAL '1' HOUR
coalesce(INTERVAL '1' DAY, INTERVAL '1' HOUR)
to_json(v)
to_json(struct(1))
cast(null as int)
cast(v as string)
cast(s as variant)
cast(st as variant)
cast(dt as boolean)
cast(bin as int)
cast(ts as decimal(20,6))
cast(ts as boolean)
cast(dt as double)
cast(d as timestamp)
cast(dec as timestamp)
cast(b as decimal(3,1))
cast(f as boolean)
cast(ntz as timestamp)
cast(INTERVAL '1' DAY as int)
cast(INTERVAL '1' DAY as double)
cast(dec as interval day)
cast(d as interval day)
cast(s as interval year to month)
cast(ai as array<boolean>)
cast(astr as array<int>)
cast(st as struct<x:int>)
try_cast(dt as int)
try_cast(i as date)
try_cast(b as int)
a.b
st.X
ST.x
ast.q
aa.x
v.a
v[0]
v['a']
struct(1, 2).col1
named_struct('a', 1).a
named_struct('a', 1, 'a', 2)
map('a', 1).a
array(1, 2)[0]
transform(ai, x -> x)[0]
transform(ast, x -> struct(x.x as q, x.y))
transform(ai, x -> transform(astr, y -> concat(x, y)))
transform(ai, i -> i || 'a')
filter(ai, x -> x is not null)
aggregate(ai, cast(0 as bigint), (a, x) -> a + x)
aggregate(ai, 0, (a, x) -> null)
aggregate(ai, null, (a, x) -> x)
aggregate(array(), 0, (a, x) -> a)
zip_with(ai, ai, (x, y) -> x + y)
zip_with(ai, s, (x, y) -> x)
map_filter(mi, k -> true)
transform(ai, (a, b, c) -> a)
transform(ai)
upper(x -> x)
regexp_replace(s, 'a')
split(s)
split_part(s, ',', 'x')
substring(s)
substring(b, 1)
substring(s, 1.5)
left(bin, 2)
lpad(bin, 2)
replace(i, 1, 2)
contains(bin, s)
startswith(i, 1)
hex(dec)
hex(b)
hex(f)
md5(b)
sha2(bin, l)
crc32(i)
base64(i)
encode(bin, 'UTF-8')
decode(s, 'UTF-8')
conv(i, 10, 2)
chr(s)
ascii(i)
repeat(i, 2)
space(l)
format_number(s, 2)
format_number(d, '#')
format_string(s)
format_string(i)
elt(1, i)
elt(1)
elt(s, s)
unix_timestamp(i)
unix_timestamp(b)
from_unixtime(s)
from_unixtime(d)
to_timestamp(l, 'yyyy')
to_date(l)
to_date(b)
make_date(d, 1, 1)
make_timestamp(2024, 1, 1, 0, 0, s)
make_timestamp(2024, 1, 1, 0, 0, 0, 'UTC')
make_dt_interval(s)
make_dt_interval()
make_ym_interval()
last_day(i)
next_day(dt, 1)
trunc(s, 'MM')
trunc(dt)
add_months(ts, 1)
add_months(dt, l)
months_between(dt, s)
sequence(t, h)
sequence(i, l)
sequence(dt, ts)
sequence(dt, dt)
sequence(dt, dt, 1)
sequence(l, l, 1)
sequence(i, i, 1L)
array_repeat(1, s)
array_repeat(1, l)
slice(ai, s, 1)
slice(ai, l, 1)
get(ai, s)
get(ai, l)
array_insert(ai, 1, 5L)
arrays_zip(ai, array(1))
arrays_zip(ast.x, ai)
arrays_zip()
map_from_arrays(ai, ai)
map_from_arrays(ai, s)
map_from_entries(array(struct(1, 'a')))
map(mi, 1)
map(ai, 1)
str_to_map(i)
concat_ws(s, ai, s)
concat_ws(i, s)
concat_ws(',', aa)
concat_ws(',', mi)
array_join(ai, 1)
array_join(astr, ',', 'x')
typeof(null)
bit_count(t)
bit_get(s, 1)
width_bucket(dec, 1, 2, 3)
factorial(l)
factorial(s)
pmod(s, 2)
pmod(d, 2)
pmod(dt, 2)
mod(s, 2)
i % s
s % 1.5
dec % i
l % dec
i - s
d - s
f - s
f * 1.5
f * 1
i * i
h * h
t + t
t - h
t % 2Y
t * 1
1Y + 1Y
1S / 2
big % dec
big / 3
big * 2
big - 1
dec * 1.23456
dec * i
dec + 0.001
dec / 0.3
1 / 3
1.0 / 3
0.1 + 0.2
1.5 * 2
100 * 1.1
10000000000 * 1.5
1e3 + 1.5
coalesce(dec, 1.555)
coalesce(dec, big)
coalesce(big, 1.55555555555555555)
coalesce(t, h)
coalesce(t, f)
coalesce(f, 1)
coalesce(f, l)
coalesce(d, f)
coalesce(f, 1.5)
coalesce(b, 'true')
coalesce(bin, s)
coalesce(ts, s)
coalesce(dt, ntz)
coalesce(ntz, ts)
coalesce(1, null, 'a')
coalesce(v, 1)
greatest(i, s)
greatest(ai, ai)
greatest(mi, mi)
nullif(1, 1.5)
nullif(mi, mi)
nvl(i, 'a')
nvl2(mi, 1, 'a')
ifnull(dt, ts)
zeroifnull(s)
zeroifnull(dec)
nullifzero(s)
nullifzero(d)
nullifzero(b)
nanvl(i, d)
nanvl(f, d)
nanvl(f, f)
isnan(s)
isnan(dec)
isnan(null)
try_divide(s, 2)
try_divide(INTERVAL '1' DAY, 2)
try_multiply(INTERVAL '1' DAY, 2)
try_add(dt, INTERVAL '1' DAY)
try_add(b, 1)
try_mod(i, 2)
get_json_object(s, i)
get_json_object(null, '$.a')
json_array_length(i)
to_char(d, '9.9')
to_char(dt, 'yyyy')
to_char(i, '999')
to_char(ts, 'yyyy')
to_char(s, '999')
to_number(i, '999')
to_number(s, 'xx')
mask(i)
url_encode(i)
parse_url(s)
levenshtein(i, s)
soundex(i)
sentences(i)
like(s, 'a')
rlike(s, i)
i rlike '1'
ai like 'a'
s like null
b like 'a'
dt like '2024%'
between(i, 1, 2)
case when true then 1 when null then 2 else 3.5 end
case when b then null end
case when b then st end
case when b then st else struct(1, 's', struct(1)) end
if(b, null, null)
if(s, 1, 2)
if(b, 1, 'a')
if(b, 1.5, 'a')
if(b, dt, 'a')
if(b, b, 'a')
hash()
hash(v)
xxhash64(st)
hash(array(mi))
"""

AGGREGATES = """
count(*)
count(i)
count(distinct i, s)
count(1)
count()
count(i) filter (where b)
count(i) filter (where i)
count_if(b)
count_if(i > 1)
count_if(i)
sum(t)
sum(i)
sum(l)
sum(f)
sum(d)
sum(dec)
sum(big)
sum(s)
sum(b)
sum(dt)
sum(distinct i)
sum(i) + 1
sum(i) / count(*)
avg(i)
avg(dec)
avg(big)
avg(s)
avg(b)
mean(d)
min(i)
max(s)
max(ai)
max(mi)
max(st)
max_by(s, i)
min_by(i, mi)
first(s)
first(s, true)
first(s) ignore nulls
last(i ignore nulls)
any_value(dec)
collect_list(s)
collect_list(distinct s)
collect_set(i)
collect_set(mi)
array_agg(struct(i, s))
approx_count_distinct(s)
approx_count_distinct(i, 0.05)
approx_percentile(i, 0.5)
approx_percentile(d, array(0.5, 0.9))
percentile_approx(dec, 0.5, 100)
approx_percentile(s, 0.5)
percentile(i, 0.5)
percentile(d, array(0.5, 0.9))
median(i)
median(dec)
mode(s)
stddev(i)
stddev_pop(d)
variance(dec)
var_pop(s)
skewness(d)
kurtosis(i)
corr(i, d)
covar_pop(i, d)
covar_samp(d, d)
regr_slope(d, i)
regr_intercept(d, i)
regr_r2(d, i)
regr_count(d, i)
bool_and(b)
bool_or(i > 1)
every(b)
some(b)
any(b)
bool_and(i)
bit_and(i)
bit_or(l)
bit_xor(t)
bit_and(d)
histogram_numeric(d, 5)
histogram_numeric(i, 5)
hll_sketch_agg(i)
hll_sketch_estimate(hll_sketch_agg(s))
string_agg(s, ',')
listagg(s)
listagg(i, ',')
listagg(bin)
array_sort(collect_list(i))
max(i) - min(i)
sum(sum(i))
case when count(*) > 1 then sum(i) else 0 end
upper(max(s))
sum(i) + nosuch
round(avg(d), 2)
try_sum(i)
try_avg(i)
count_min_sketch(i, 0.5D, 0.5D, 1)
sum(case when b then 1 else 0 end)
sum(i * dec)
i + sum(i)
sum(transform(ai, x -> x))
"""


def lines(text: str) -> list[str]:
    return [line for line in text.strip().splitlines() if line.strip()]


def ours(text: str, schema: Schema, aggregate: bool) -> str:
    problems: list[str] = []
    try:
        e = Expression.parse(text)
    except ExpressionSyntaxError as error:
        return f"invalid: {error}"
    kind = type_of(e, schema, lambda code, message, **_: problems.append(f"{message} [{code}]"), aggregate=aggregate)
    return f"invalid: {'; '.join(problems)}" if problems else str(kind)


def sparks(text: str, frame: DataFrame) -> str:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:  # some wrong calls fail inside Spark's analysis instead of being refused by it
        kind = frame.selectExpr(text).schema.fields[0].dataType
    except (PySparkException, Py4JJavaError) as error:
        return f"invalid: {str(error).splitlines()[0][:160]}"
    return str(from_spark_type(kind))


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)  # it prints each error we ask for
    return spark.createDataFrame([], spark_schema(Schema.parse(COLUMNS)))


def agree(one: str, other: str) -> bool:
    return one == other or (one.startswith("invalid") and other.startswith("invalid"))


@pytest.mark.parametrize(("corpus", "aggregate"), [(SCALAR, False), (AGGREGATES, True)], ids=["scalar", "aggregate"])
def test_our_types_are_those_of_spark(frame: DataFrame, corpus: str, aggregate: bool) -> None:
    schema, differences = from_spark_schema(frame.schema), []
    for text in lines(corpus):
        mine, theirs = ours(text, schema, aggregate), sparks(text, frame)
        if not agree(mine, theirs):
            differences.append(f"{text}\n    ours:  {mine}\n    spark: {theirs}")
    assert not differences, f"{len(differences)} differ\n" + "\n".join(differences)


def test_canonical_text_means_to_spark_what_was_written(frame: DataFrame) -> None:
    differences = []
    for text in lines(SCALAR) + lines(AGGREGATES):
        try:
            sql = Expression.parse(text).sql
        except ExpressionSyntaxError:
            continue
        if sql == text:
            continue
        written, canonical = sparks(text, frame), sparks(sql, frame)
        if not agree(written, canonical):
            differences.append(f"{text}  ->  {sql}\n    written:   {written}\n    canonical: {canonical}")
    assert not differences, "\n".join(differences)


def test_the_corpus_is_wide() -> None:
    every = lines(SCALAR) + lines(AGGREGATES)
    used: set[str] = set()
    for text in every:
        try:
            used |= {n.function for n in Expression.parse(text).tree.walk() if isinstance(n, Call)}
        except ExpressionSyntaxError:
            continue
    assert len(every) >= 250
    assert len(used & set(functions())) >= 150


def test_every_function_we_know_is_one_of_spark(spark: SparkSession) -> None:
    known = {row.function for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect()}
    assert sorted(set(functions()) - known - {"timestampadd", "timestampdiff"}) == []
