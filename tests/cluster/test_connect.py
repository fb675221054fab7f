"""Builds on a real Spark Connect server, and what is said when there is none, or not the right one."""

from __future__ import annotations

import time
from pathlib import Path
from urllib.parse import quote

from pyspark import __version__ as our_version

from cluster.conftest import TOKEN, Shop, cut_after, run_cases
from support.fake_connect import fake_server
from support.postgres import free_port
from support.proxy import Proxy
from support.spark_servers import SparkServer

CASES = (
    "every_kind",
    "keys_like_variables",
    "operators_above_figures",
    "checks_follow_their_own_identity",
    "failing_model",
)


def test_behaviours(connect_server: SparkServer, tmp_path: Path) -> None:
    assert run_cases(connect_server.address, tmp_path, *CASES) == []


def test_nobody_answers(tmp_path: Path) -> None:
    port = free_port()
    began = time.monotonic()
    code, messages = Shop(tmp_path, f'remote = "sc://127.0.0.1:{port}"').sqb("build")
    assert code == 1 and time.monotonic() - began < 30
    assert (
        f"the Spark server sc://127.0.0.1:{port} of the connection big does not answer: connection refused" in messages
    )
    assert "error[SQB-N221]" in messages and "Traceback" not in messages


def test_a_wrong_token_and_none(connect_server: SparkServer, tmp_path: Path) -> None:
    shop = Shop(tmp_path, f'remote = "sc://localhost:{connect_server.port}/;token=@@ENV:SHOP_TOKEN"')
    code, messages = shop.sqb("build", SHOP_TOKEN="wrong-one")
    assert code == 1 and "error[SQB-N222]" in messages and "of the connection big refuses the token" in messages
    assert "wrong-one" not in messages
    code, messages = Shop(tmp_path, f'remote = "sc://localhost:{connect_server.port}"').sqb("build", "--debug")
    assert code == 1 and "error[SQB-N222]" in messages and "wants a token" in messages


def test_a_server_that_does_not_fit(tmp_path: Path) -> None:
    with fake_server("3.5.1") as address:
        code, messages = Shop(tmp_path / "old", f'remote = "{address}"').sqb("build")
        assert (
            code == 1
            and "error[SQB-N223]" in messages
            and f"is Spark 3.5.1, and sqb uses PySpark {our_version}" in messages
        )
    with fake_server(our_version) as address:
        code, messages = Shop(tmp_path / "bare", f'remote = "{address}"').sqb("build")
        assert code == 1 and "was started without Iceberg" in messages and "--conf spark.sql.extensions=" in messages


# As in a notebook: the session is the caller's, before and after.
_HANDED_IN = """
import os
import sqb
from pyspark.sql import SparkSession

spark = SparkSession.builder.remote(os.environ["SHOP_SPARK"]).create()
spark.sql("SELECT 7 AS seven").createOrReplaceTempView("mine")
before = spark.conf.getAll
built = sqb.build(".", spark=spark).raise_for_failures()
made = {"seeds.keys": 3, "default.first": 1, "default.more": 2, "default.sums": 3}
assert {n.name: n.rows for n in built.ran} == made, built
project = sqb.Project(".", spark=spark)
assert project.query("SELECT n FROM more ORDER BY 1").rows == ((2,), (3,))
assert project.build().ran == (), "nothing is to do"
with open("seeds/keys.csv", "a") as file:
    file.write("${env:HOME},2\\n${spark.app.name},2\\n")
project.build().raise_for_failures()
found = project.query("SELECT * FROM sums ORDER BY k").rows
assert found == (("${env:HOME}", 3), ("${spark.app.name}", 3), ("a", 1)), found
assert spark.conf.getAll == before
assert [r.seven for r in spark.table("mine").collect()] == [7]
assert [t.name for t in spark.catalog.listTables()] == ["mine"]
print("as it was")
spark.stop()
"""


def test_a_session_that_is_handed_in(connect_server: SparkServer, tmp_path: Path) -> None:
    shop = Shop(tmp_path, 'master = "local[1]"')
    shop.write("functions/plus.py", "def plus(n: int) -> int:\n    return n + 1\n")
    shop.write("models/more.sql", "SELECT plus(id) AS n FROM first UNION ALL SELECT plus(id + 1) FROM first")
    shop.write("seeds/keys.csv", "k,n\n${env:HOME},1\n${spark.app.name},1\na,1\n")
    shop.write("models/sums.sql", "-- @refresh: incremental\nSELECT k, sum(n) AS n FROM keys GROUP BY k")
    done = shop.python(_HANDED_IN, SHOP_SPARK=connect_server.address)
    assert (done.returncode, done.stdout) == (0, "as it was\n"), done.stderr


def test_a_connection_that_is_cut_in_the_middle(connect_server: SparkServer, tmp_path: Path) -> None:
    proxy = Proxy(connect_server.port)
    address = f"sc://localhost:{proxy.port}/;token={quote(TOKEN, safe='')}"
    shop = Shop(tmp_path, 'remote = "@@ENV:SHOP_SPARK"')
    # The server goes on with it for a while, and has another core for the next build.
    shop.write("functions/nap.py", "import time\n\ndef nap(n: int) -> int:\n    time.sleep(120)\n    return n\n")
    shop.write("models/slow.sql", "SELECT nap(id) AS n FROM first")
    shop.write("models/last.sql", "SELECT n FROM slow")
    build = shop.start("build", SHOP_SPARK=address)
    messages, seconds = cut_after(build, "[OK] default.first", proxy, timeout=60)
    assert seconds < 30, messages
    assert build.returncode == 1 and "error[SQB-N224]" in messages, messages
    assert f"the connection big to Spark at sc://localhost:{proxy.port} broke in the middle of the work" in messages
    assert TOKEN not in messages and quote(TOKEN, safe="") not in messages
    shop.write("models/slow.sql", "SELECT count(*) AS n FROM first")
    proxy.mend()
    code, messages = shop.sqb("build", SHOP_SPARK=address)
    proxy.close()
    assert code == 0, messages
    assert (
        "[OK] default.first (table, skip — unchanged)" in messages and "[OK] default.last (table, backfill" in messages
    )
