"""A frame shows the same whatever was asked of it before: a filter belongs to the query that has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.datasource import DataSourceReader

import jjq.spark
from coldstore.objects.settings import S3Settings
from coldstore.shared.chance import SystemChance
from jjq.spark.scan.reader import reader
from jjq.spark.schema import spark_schema
from tests.jjq.spark.making import Made, make, make_at, offsets
from tests.jjq.spark.serving import Serving
from tests.servers.s3 import S3Server

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
BLOCKS, YOUNG = [20, 20, 20], [15, 15]
COUNT = 90


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make(tmp_path_factory.mktemp("reuse"), BLOCKS, YOUNG)


@pytest.fixture(scope="module")
def bucket(seaweed: S3Server) -> Made:
    prefix = f"t-{SystemChance().token()}"
    return make_at(seaweed.objects(prefix), f"s3://{seaweed.bucket}/{prefix}", BLOCKS, YOUNG)


def s3_of(server: S3Server) -> S3Settings:
    return S3Settings(
        endpoint=server.endpoint,
        region=server.region,
        access_key=server.access_key,
        secret_key=server.secret_key,
    )


WAYS = [
    "source, folder",
    "source, S3",
    "native, folder",
    "fallback, folder",
    "fallback, S3",
    "tail of a server",
]


@pytest.fixture
def frame(request: pytest.FixtureRequest, spark: SparkSession) -> DataFrame:
    """The whole queue, read in one of all ways."""
    get: Callable[[str], Any] = request.getfixturevalue
    way: str = request.param
    if way == "tail of a server":
        serving: Serving = get("serving")
        queue = serving.new_queue()
        serving.client.push(queue, [b"value %d" % n for n in range(COUNT)])
        return jjq.spark.read(spark, serving.root, queue, server=serving.address)
    if way.endswith("S3"):
        made, settings = get("bucket"), s3_of(get("seaweed"))
    else:
        made, settings = get("folder"), S3Settings()
    if way.startswith("source"):
        keys = ("endpoint", "region", "access_key", "secret_key")
        more = {f"s3_{key}": getattr(settings, key) for key in keys if getattr(settings, key)}
        return spark.read.format("jjq").options(**made.options(**more)).load()
    # What skips damage is read by the source also where Spark could reach the files.
    damage: Any = "skip" if way == "fallback, folder" else "fail"
    found = jjq.spark.read(spark, made.root, made.name, s3=settings, on_damage=damage)
    assert ("parquet" in plan_of(found)) == way.startswith("native")
    return found


def plan_of(frame: Any) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString()).lower()


@pytest.mark.parametrize("frame", WAYS, indirect=True)
def test_a_filter_ends_with_its_query(spark: SparkSession, frame: DataFrame) -> None:
    check_reuse(spark, frame)


@pytest.mark.parametrize("frame", ["source, folder", "fallback, S3"], indirect=True)
def test_it_does_also_where_the_user_switched_on_that_filters_are_pushed(
    spark: SparkSession, frame: DataFrame
) -> None:
    """For the sake of another source, for instance."""
    spark.conf.set(PUSHDOWN, "true")
    try:
        check_reuse(spark, frame)
    finally:
        spark.conf.unset(PUSHDOWN)


def check_reuse(spark: SparkSession, frame: DataFrame) -> None:
    assert offsets(frame.where("offset >= 50")) == list(range(50, COUNT))
    assert offsets(frame) == list(range(COUNT))
    both = frame.where("offset < 12").unionAll(frame.where("offset >= 80"))
    assert offsets(both) == [*range(12), *range(80, COUNT)]
    frame.createOrReplaceTempView("elements")
    (found,) = spark.sql(
        "select (select count(*) from elements where offset > 30) as some, count(*) as n from elements"
    ).collect()
    assert (found.some, found.n) == (COUNT - 31, COUNT)
    few = frame.where("offset between 40 and 44").cache()
    try:
        assert few.count() == 5
        assert frame.cache().count() == COUNT
        assert offsets(frame.where("offset < 3")) == [0, 1, 2]
    finally:
        few.unpersist()
        frame.unpersist()


def test_registering_leaves_every_setting_as_it_was(spark: SparkSession) -> None:
    for value in ("true", "false"):
        spark.conf.set(PUSHDOWN, value)
        jjq.spark.register(spark)
        assert spark.conf.get(PUSHDOWN) == value
    spark.conf.unset(PUSHDOWN)
    before: Any = spark.conf.getAll
    jjq.spark.register(spark)
    assert spark.conf.getAll == before


def test_filters_are_handed_over_only_to_those_who_ask(folder: Made) -> None:
    schema = spark_schema("bytes")
    plain = reader(folder.options(), schema, None)
    assert type(plain).pushFilters is DataSourceReader.pushFilters
    asked = reader(folder.options(push_filters="once"), schema, None)
    assert type(asked).pushFilters is not DataSourceReader.pushFilters


def test_spark_says_what_to_switch_on_for_filters_to_be_pushed(spark: SparkSession, folder: Made) -> None:
    frame = spark.read.format("jjq").options(**folder.options(push_filters="once")).load()
    spark.conf.set(PUSHDOWN, "false")
    try:
        with pytest.raises(PySparkException, match="DATA_SOURCE_PUSHDOWN_DISABLED") as told:
            frame.count()
        assert PUSHDOWN in str(told.value)
    finally:
        spark.conf.unset(PUSHDOWN)
