"""The functions of Spark SQL we know, each with what it takes and what it gives.

One line each: `name(arguments) = result`. In the arguments
    string int array<T> …    a type; another that Spark turns into it by itself is accepted too
    a|b                      any of several, tried in order
    numeric integral any ordered array sortable map struct      a kind of type
    T U V …                  any type, the same wherever the letter stands (the common one, if they differ)
    E K                      so too, but text and something else have no common one
    (T,int)->U               a lambda with its parameters
    !x                       taken as it is, nothing is converted
    x?                       may be left out        x* x+   any number, at least one
and as the result a type, a letter, `$1` (the type of the first argument as taken) or `@rule` (see `rules.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

_SCALAR = """
isnull(any) = boolean
isnotnull(any) = boolean
isnan(double|float) = boolean
if(!boolean, T, T) = T
coalesce(T+) = T
ifnull(T, T) = T
nvl(T, T) = T
nvl2(any, T, T) = T
nullif(T, T) = @nullif
nullifzero(!numeric|!string) = $1
zeroifnull(any) = @zeroifnull
nanvl(!float, !float) = float
nanvl(double, double) = double
greatest(E, E+) = @ordered
least(E, E+) = @ordered
equal_null(T, T) = boolean
abs(numeric|interval) = $1
negative(numeric|interval) = $1
positive(numeric|interval) = $1
sign(double|interval) = double
signum(double|interval) = double
sqrt cbrt exp expm1 ln log10 log2 log1p degrees radians rint(double) = double
sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh cot sec csc(double) = double
log(double, double?) = double
pow power atan2 hypot(double, double) = double
e pi() = double
pmod(any, any) = @remainder
mod(any, any) = @remainder
round(numeric, int?) = @round
bround(numeric, int?) = @round
ceil ceiling floor(bigint|double|decimal) = @ceil
ceil ceiling floor(decimal, int) = @round
factorial(int) = bigint
bin(bigint) = string
hex(bigint|binary|string) = string
unhex(string) = binary
conv(string, int, int) = string
width_bucket(double, double, double, bigint) = bigint
width_bucket(dayinterval, dayinterval, dayinterval, bigint) = bigint
bit_count(!integral|!boolean) = int
bit_get getbit(!integral, int) = tinyint
shiftleft shiftright shiftrightunsigned(int|bigint, int) = $1
try_add(any, any) = @try_add
try_subtract(any, any) = @try_subtract
try_multiply(any, any) = @try_multiply
try_divide(any, any) = @try_divide
try_mod(any, any) = @remainder
upper lower ucase lcase initcap(string) = string
soundex(!string) = string
ascii(string) = int
char chr(bigint) = string
length len char_length character_length(string|binary) = int
octet_length bit_length(string|binary) = int
trim ltrim rtrim(string, string?) = string
btrim(string, string?) = string
substring substr(string|binary, int, int?) = $1
left right(string|binary, int) = $1
substring_index(string, string, int) = string
concat() = string
concat(any+) = @concat
concat_ws(string, array<string>|string*) = string
repeat(string, int) = string
space(int) = string
lpad rpad(string|binary, int, string|binary?) = $1
replace(string, string, string?) = string
translate(string, string, string) = string
overlay(string|binary, string|binary, int, int?) = $1
instr(string, string) = int
locate position(string, string, int?) = int
find_in_set(string, string) = int
startswith endswith contains(string|binary, string|binary) = boolean
like ilike(string, string, string?) = boolean
rlike regexp regexp_like(string, string) = boolean
regexp_replace(string, string, string, int?) = string
regexp_extract(string, string, int?) = string
regexp_extract_all(string, string, int?) = array<string>
regexp_count(string, string) = int
regexp_instr(string, string, int?) = int
regexp_substr(string, string) = string
split(string, string, int?) = array<string>
split_part(string, string, int) = string
sentences(string, string?, string?) = array<array<string>>
levenshtein(string, string, int?) = int
format_number(!numeric, int|string) = string
format_string printf(string, any*) = string
to_number(string, string) = @to_number
to_char to_varchar(date|timestamp|decimal|binary, string) = string
elt(int, string+) = string
base64(binary) = string
unbase64(string) = binary
encode(string, string) = binary
decode(binary, string) = string
is_valid_utf8(string) = boolean
make_valid_utf8(string) = string
luhn_check(string) = boolean
mask(!string, string?, string?, string?, string?) = string
md5(binary) = string
sha sha1(binary) = string
sha2(binary, int) = string
crc32(binary) = bigint
hash(ordered+) = int
xxhash64(ordered+) = bigint
typeof(any) = string
url_encode url_decode try_url_decode(string) = string
parse_url try_parse_url(string, string, string?) = string
date_add date_sub(date, !int|!smallint|!tinyint|!string) = date
dateadd(date, !int|!smallint|!tinyint|!string) = date
datediff date_diff(date, date) = int
timestampadd(string, bigint, timestamp|timestamp_ntz) = @timestampadd
timestampdiff(string, timestamp, timestamp) = bigint
add_months(date, int) = date
months_between(timestamp, timestamp, boolean?) = double
last_day(date) = date
next_day(date, string) = date
trunc(date, string) = date
date_trunc(string, timestamp) = timestamp
year quarter month day dayofmonth dayofweek dayofyear weekday weekofyear(date) = int
dayname monthname(date) = string
hour minute second(timestamp|timestamp_ntz) = int
date_part datepart extract(string, any) = @date_part
date_format(timestamp, string) = string
date_from_unix_date(int) = date
unix_date(date) = int
unix_micros unix_millis unix_seconds(timestamp) = bigint
timestamp_micros timestamp_millis(!integral) = timestamp
timestamp_seconds(numeric) = timestamp
unix_timestamp to_unix_timestamp(!string|!date|!timestamp|!timestamp_ntz, string?) = bigint
from_unixtime(bigint, string?) = string
from_utc_timestamp to_utc_timestamp(timestamp, string) = timestamp
convert_timezone(string, string, timestamp_ntz) = timestamp_ntz
to_date(string|date|timestamp|timestamp_ntz, string?) = date
try_to_date(string|date|timestamp|timestamp_ntz, string?) = date
to_timestamp try_to_timestamp(string|date|timestamp|timestamp_ntz|numeric) = timestamp
to_timestamp try_to_timestamp(!string|!date|!timestamp|!timestamp_ntz, string) = timestamp
to_timestamp_ltz(string|date|timestamp|timestamp_ntz, string?) = timestamp
to_timestamp_ntz(string|date|timestamp|timestamp_ntz, string?) = timestamp_ntz
make_date(int, int, int) = date
make_timestamp make_timestamp_ltz(int, int, int, int, int, decimal(16,6), string?) = timestamp
make_timestamp_ntz(int, int, int, int, int, decimal(16,6)) = timestamp_ntz
make_dt_interval(int?, int?, int?, decimal(18,6)?) = interval day to second
make_ym_interval(int?, int?) = interval year to month
array(T*) = array<T>
array_repeat(T, !int|!smallint|!tinyint) = array<T>
sequence(T, T, any?) = @sequence
size cardinality(array|map) = int
array_size(array) = int
element_at(array, !int|!smallint|!tinyint) = @item
element_at(map<K,V>, K) = V
try_element_at(array, !int|!smallint|!tinyint) = @item
try_element_at(map<K,V>, K) = V
get(array, int) = @item
array_contains(array<E>, E) = boolean
array_position(array<E>, E) = bigint
array_append array_prepend(array<E>, E) = array<E>
array_insert(array<E>, int, E) = array<E>
array_remove(array<E>, E) = array<E>
array_distinct(sortable) = $1
array_compact(array) = $1
array_union array_intersect array_except(array<E>, array<E>) = array<E>
arrays_overlap(array<E>, array<E>) = boolean
array_join(array<string>, !string, !string?) = string
array_max array_min(sortable) = @item
array_sort(sortable) = $1
array_sort(array<T>, (T,T)->!int) = array<T>
sort_array(sortable, boolean?) = $1
reverse(array|string) = $1
flatten(array<array<T>>) = array<T>
slice(array, int, int) = $1
arrays_zip(array*) = @arrays_zip
transform(array<T>, (T)->U) = array<U>
transform(array<T>, (T,int)->U) = array<U>
filter(array<T>, (T)->!boolean) = array<T>
filter(array<T>, (T,int)->!boolean) = array<T>
exists forall(array<T>, (T)->!boolean) = boolean
aggregate reduce(array<T>, A, (A,T)->A) = A
aggregate reduce(array<T>, A, (A,T)->A, (A)->R) = R
zip_with(array<T>, array<U>, (T,U)->R) = array<R>
map() = map<void,void>
map(any, any, any*) = @map
map_from_arrays(array<K>, array<V>) = map<K,V>
map_from_entries(array) = @map_from_entries
map_keys(map<K,V>) = array<K>
map_values(map<K,V>) = array<V>
map_entries(map<K,V>) = array<struct<key:K,value:V>>
map_concat(map<K,V>+) = map<K,V>
map_contains_key(map<K,V>, K) = boolean
map_filter(map<K,V>, (K,V)->!boolean) = map<K,V>
transform_keys(map<K,V>, (K,V)->U) = map<U,V>
transform_values(map<K,V>, (K,V)->U) = map<K,U>
map_zip_with(map<K,V>, map<K,U>, (K,V,U)->R) = map<K,R>
str_to_map(!string, string?, string?) = map<string,string>
struct(any+) = @struct
named_struct(any+) = @named_struct
get_json_object(!string, !string) = string
json_array_length(!string) = int
json_object_keys(!string) = array<string>
to_json(struct|array|map|!variant, map<string,string>?) = string
from_json(!string, !string, map<string,string>?) = @from_json
to_csv(struct, map<string,string>?) = string
schema_of_json(string) = string
parse_json try_parse_json(string) = variant
variant_get try_variant_get(variant, string, string?) = @variant_get
is_variant_null(variant) = boolean
bitmap_bit_position bitmap_bucket_number(bigint) = bigint
hll_sketch_estimate(binary) = bigint
hll_union(binary, binary, boolean?) = binary
assert_true(boolean, string?) = void
"""

_AGGREGATE = """
count(any+) = bigint
count_if(boolean) = bigint
sum try_sum(numeric|interval) = @sum
avg mean try_avg(numeric|interval) = @avg
min max(ordered) = $1
min_by max_by(any, ordered) = $1
first last first_value last_value any_value(any, boolean?) = $1
collect_list array_agg(any) = @collect
collect_set(ordered) = @collect
approx_count_distinct(ordered, double?) = bigint
approx_percentile percentile_approx(numeric|date|timestamp|timestamp_ntz|interval, double, bigint?) = $1
approx_percentile percentile_approx(numeric|date|timestamp|timestamp_ntz|interval, array<double>, bigint?) = @collect
percentile(numeric|interval, double, bigint?) = @percentile
percentile(numeric|interval, array<double>, bigint?) = @percentiles
median(numeric|interval) = @percentile
mode(ordered, boolean?) = $1
stddev std stddev_samp stddev_pop variance var_samp var_pop skewness kurtosis(double) = double
corr covar_pop covar_samp(double, double) = double
regr_avgx regr_avgy regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy(double, double) = double
regr_count(double, double) = bigint
bool_and bool_or every some any(boolean) = boolean
bit_and bit_or bit_xor(integral) = $1
histogram_numeric(numeric|date|timestamp|timestamp_ntz|interval, int) = @histogram
hll_sketch_agg(int|bigint|string|binary, int?) = binary
hll_union_agg(binary, boolean?) = binary
count_min_sketch(integral|string|binary, double, double, int) = binary
bitmap_construct_agg(bigint) = binary
bitmap_or_agg(binary) = binary
string_agg listagg(string|binary, string|binary?) = $1
"""

UNREPEATABLE = {
    **dict.fromkeys(
        ("now", "current_timestamp", "localtimestamp", "current_date", "curdate", "current_time"), "the wall clock"
    ),
    **dict.fromkeys(("rand", "random", "randn", "randstr", "uniform", "uuid", "shuffle"), "a random draw"),
    **dict.fromkeys(
        ("monotonically_increasing_id", "spark_partition_id", "input_file_name", "input_file_block_start"),
        "how the work was cut up",
    ),
    **dict.fromkeys(("current_user", "session_user", "current_database", "current_catalog", "version"), "the session"),
}
"""Functions whose answer a replay would not repeat, with what it depends on."""

ELSEWHERE = {
    **dict.fromkeys(("window", "session_window", "window_time"), "give the aggregate step its `window` option"),
    **dict.fromkeys(
        ("row_number", "rank", "dense_rank", "ntile", "lag", "lead", "nth_value", "cume_dist"),
        "rank and lag are not available in a stream; limit keeps the first of each key",
    ),
    **dict.fromkeys(
        ("explode", "explode_outer", "posexplode", "posexplode_outer", "inline", "stack"),
        "use the explode step, which makes rows",
    ),
    **dict.fromkeys(("percentile_cont", "percentile_disc"), "use percentile(x, 0.5)"),
    **dict.fromkeys(("java_method", "reflect", "try_reflect", "input_file_block_length", "raise_error"), "remove it"),
}
"""Functions that have another place here, with where."""


@dataclass(frozen=True)
class Signature:
    """One way to call a function."""

    name: str
    arguments: tuple[str, ...]
    result: str
    aggregate: bool = False

    @property
    def least(self) -> int:
        """How many arguments it needs."""
        return sum(1 for a in self.arguments if a[-1] not in "?*")

    @property
    def most(self) -> int | None:
        """How many it takes, None for any number."""
        return None if self.arguments and self.arguments[-1][-1] in "*+" else len(self.arguments)

    def argument(self, position: int) -> str:
        """What is wanted at a position, without its mark of repetition."""
        found = self.arguments[min(position, len(self.arguments) - 1)]
        return found[:-1] if found[-1] in "?*+" else found

    def __str__(self) -> str:
        return f"{self.name}({', '.join(self.arguments)})"


@cache
def functions() -> dict[str, tuple[Signature, ...]]:
    """Every function by name, with the ways to call it."""
    found: dict[str, tuple[Signature, ...]] = {}
    for table, aggregate in ((_SCALAR, False), (_AGGREGATE, True)):
        for line in table.strip().splitlines():
            head, _, result = line.partition(" = ")
            names, _, arguments = head.partition("(")
            wanted = tuple(split_types(arguments[:-1]))
            for name in names.split():
                found[name] = (*found.get(name, ()), Signature(name, wanted, result, aggregate))
    return found


def is_aggregate(name: str) -> bool:
    """True for functions over many rows."""
    return any(s.aggregate for s in functions().get(name, ()))


def split_types(text: str, mark: str = ",") -> list[str]:
    """A list of types cut at its outer commas (or another mark)."""
    parts, opened, start = [], 0, 0
    for i, c in enumerate(text):
        opened += (c in "<(") - (c in ")" or (c == ">" and text[i - 1] != "-"))
        if c == mark and not opened:
            parts.append(text[start:i].strip())
            start = i + 1
    return [*parts, text[start:].strip()] if text.strip() else []
