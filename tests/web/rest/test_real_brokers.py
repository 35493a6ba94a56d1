"""The proxy in front of real brokers: every object of v3, the document, logins, a killed owner."""

import asyncio
import base64
import contextlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import fastjsonschema
import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import checks
from schemathesis.core.result import Ok

from minikafka import Admin, Consumer, NewTopic, Producer
from minikafka.client.admin.acl_types import (
    Acl,
    AclOperation,
    AclPattern,
    AclPermission,
    AclResource,
)
from minikafka.web.rest.openapi import document

from ...support.cluster import Cluster, free_ports
from .lab import JSON, ONE, V2, V3, Proxy, proxy
from .test_app import basic
from .test_produce import v3

pytestmark = [pytest.mark.slow, pytest.mark.processes, pytest.mark.timeout(180)]
TP = {"topic": "t", "partition": 0}
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    plain, login = free_ports(2)
    broker = {
        "listeners": f"PLAINTEXT://127.0.0.1:{plain},CLIENTS://127.0.0.1:{login}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.clients.plain.sasl.jaas.config": f'{MODULE} user_alice="alice-secret";',
        "authorizer.class.name": "StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "4",
        "offsets.topic.replication.factor": "1",
        "connection.failed.authentication.delay.ms": "10",
    }
    with Cluster(tmp_path_factory.mktemp("rest"), brokers=1, broker_settings=broker) as one:
        one.start()
        one.broker(1).environment["LOGIN"] = f"127.0.0.1:{login}"
        with Admin(one.bootstrap) as admin:
            admin.create_topics([NewTopic("t", 2, 1, configs={"retention.ms": "-1"})])
            entry = (AclResource.TOPIC, "t", AclPattern.LITERAL, "User:alice", "*")
            for operation in (AclOperation.WRITE, AclOperation.READ):
                admin.create_acls([Acl(*entry, operation, AclPermission.ALLOW)])
        with Producer(one.bootstrap) as producer:
            for n in range(10):
                producer.send("t", b"%d" % n, partition=0)
        yield one
        one.stop()


@contextlib.contextmanager
def process(cluster: Cluster, port: int, *flags: str) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "minikafka", "rest", "--bootstrap-server", cluster.bootstrap]
    address = ["--listen", f"127.0.0.1:{port}", "--until-input-ends"]
    one = subprocess.Popen(
        [*command, *address, *flags], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert one.stdin is not None
    assert one.stdout is not None
    try:
        assert one.stdout.readline() == f"ready http://127.0.0.1:{port}\n"
        yield one
    finally:
        if one.poll() is None:
            one.terminate()
            assert one.wait(30) in (0, 130, -15)
        one.stdin.close()
        one.stdout.close()


@pytest.fixture
async def one(cluster: Cluster) -> AsyncIterator[Proxy]:
    async with proxy([cluster.bootstrap]) as found:
        yield found


async def test_every_object_that_v3_relates_to_is_there_and_has_its_schema(
    one: Proxy, cluster: Cluster
) -> None:
    told = document()
    components = told["components"]["schemas"]
    with Consumer(cluster.bootstrap, group_id="g", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["t"])
        await asyncio.to_thread(consumer.poll, 20_000)
        await asyncio.to_thread(consumer.commit)
        todo, seen, kinds = [f"{ONE}/v3/clusters"], {}, set()
        while todo:
            url = todo.pop()
            if url in seen:
                continue
            answer = await one.http.get(url)
            seen[url] = answer.status_code
            if answer.status_code == 404 and url.endswith("/reassignment"):
                continue  # nothing is being moved
            assert answer.status_code == 200, f"{url}: {answer.text}"
            found = answer.json()
            for each in found.get("data", [found]):
                schema = components[each["kind"]]
                fastjsonschema.validate(schema, each)
                kinds.add(each["kind"])
                todo += related(each)
            assert found["metadata"]["self"].split("?")[0] == url.split("?")[0]
    assert kinds == {
        name.removesuffix("List")
        for name in components
        if name.startswith("Kafka") and "Reassignment" not in name and "Offset" not in name
    }
    assert len(seen) > 100


def related(found: dict[str, Any]) -> list[str]:
    own = found["metadata"]["self"]
    relations = [each for each in found.values() if isinstance(each, dict)]
    more = [f"{own}/lags"] if found["kind"] == "KafkaConsumerGroup" else []
    return [own, *(each["related"] for each in relations if "related" in each), *more]


async def test_topics_settings_and_entries_are_changed(one: Proxy) -> None:
    async def ask(method: str, path: str, body: Any = None) -> httpx.Response:
        content = None if body is None else json.dumps(body)
        return await one.http.request(method, base + path, content=content, headers=V3)

    base = await v3(one.http, "")
    made = await ask("POST", "/topics", {"topic_name": "new", "partitions_count": 2})
    assert (made.status_code, made.json()["partitions_count"]) == (201, 2)
    assert made.headers["location"] == made.json()["metadata"]["self"]
    again = await ask("POST", "/topics", {"topic_name": "new"})
    assert (again.status_code, again.json()["error_code"]) == (400, 40002)
    assert (await ask("PATCH", "/topics/new", {"partitions_count": 3})).status_code == 200
    name = "/topics/new/configs/retention.ms"
    assert (await ask("PUT", name, {"value": "5000"})).status_code == 204
    assert (await ask("GET", name)).json()["value"] == "5000"
    change = {"data": [{"name": "retention.ms", "operation": "DELETE"}], "validate_only": True}
    assert (await ask("POST", "/topics/new/configs:alter", change)).status_code == 204
    assert (await ask("GET", name)).json()["is_default"] is False
    assert (await ask("DELETE", name)).status_code == 204
    assert (await ask("GET", name)).json()["is_default"] is True
    bad = await ask("PUT", "/topics/new/configs/no.such", {"value": "1"})
    assert (bad.status_code, bad.json()["error_code"]) == (400, 40002)
    offset = (await ask("GET", "/topics/new/partitions/2/offset?offset_type=latest")).json()
    assert (offset["latest_offset"], "earliest_offset" in offset) == (0, False)
    assert (await ask("DELETE", "/topics/new")).status_code == 204
    gone = await ask("GET", "/topics/new")
    assert (gone.status_code, gone.json()["error_code"]) == (404, 40403)
    entry = {
        "resource_type": "GROUP",
        "resource_name": "g-",
        "pattern_type": "PREFIXED",
        "principal": "User:bob",
        "host": "*",
        "operation": "READ",
        "permission": "ALLOW",
    }
    assert (await ask("POST", "/acls:batch", {"data": [entry]})).status_code == 201
    search = "resource_type=GROUP&pattern_type=PREFIXED&operation=ANY&permission=ANY"
    deleted = (await ask("DELETE", f"/acls?{search}")).json()["data"]
    assert [{name: each[name] for name in entry} for each in deleted] == [entry]
    assert (await ask("DELETE", "/acls")).status_code == 400


async def test_a_login_may_do_what_its_user_may(cluster: Cluster) -> None:
    login = cluster.broker(1).environment["LOGIN"]
    with_logins = {
        "minikafka.rest.authentication": "sasl",
        "security.protocol": "SASL_PLAINTEXT",
        "bootstrap.timeout.ms": "5000",
    }
    body = json.dumps({"records": [{"value": 1}]})
    alice = basic("alice", "alice-secret")
    async with proxy([login], settings=with_logins) as one:
        written = await one.http.post("/topics/t", content=body, headers={**JSON, **alice})
        assert written.json()["offsets"][0]["error_code"] is None
        denied = await one.http.post("/consumers/g", content="{}", headers={**V2, **alice})
        path = denied.json()["base_uri"].partition(".example:8082")[2]
        topics = json.dumps({"topics": ["t"]})
        await one.http.post(f"{path}/subscription", content=topics, headers={**V2, **alice})
        read = await one.http.get(f"{path}/records?timeout=20000", headers=alice)
        assert (read.status_code, read.json()["error_code"]) == (403, 40301)
        wrong = await one.http.get("/topics", headers=basic("alice", "guess"))
        assert (wrong.status_code, wrong.json()["error_code"]) == (401, 40101)
        other = await one.http.get(f"{path}/records", headers=basic("alice", "guess"))
        assert other.json()["error_code"] == 40403


async def test_brokers_that_go_away_and_come_back_are_found_again(cluster: Cluster) -> None:
    body = json.dumps({"records": [{"value": "again", "partition": 1}]})
    short = {"producer.delivery.timeout.ms": "3000", "producer.request.timeout.ms": "1000"}
    short |= {"producer.max.block.ms": "1000", "admin.default.api.timeout.ms": "2000"}
    async with proxy([cluster.bootstrap], settings=short) as one:

        async def written() -> list[int | None]:
            answer = await one.http.post("/topics/t", content=body, headers=JSON)
            entries = answer.json().get(
                "offsets", [{"error_code": answer.json().get("error_code")}]
            )
            return [each["error_code"] for each in entries]

        made = await one.http.post("/consumers/away", content="{}", headers=V2)
        path = made.json()["base_uri"].partition(".example:8082")[2]
        places = json.dumps({"partitions": [{"topic": "t", "partition": 1}]})
        for what in ("assignments", "positions/end"):
            await one.http.post(f"{path}/{what}", content=places, headers=V2)
        assert (await one.http.get(f"{path}/records?timeout=1")).json() == []
        assert await written() == [None]
        cluster.broker(1).kill()
        (code,) = await written()
        assert code in (50003, 50302)
        await asyncio.to_thread(cluster.broker(1).start)
        async with asyncio.timeout(60):
            while await written() != [None]:
                pass
            answer = await one.http.get(f"{path}/records?timeout=30000")
        assert answer.status_code == 200, answer.text
        assert answer.json()[0]["value"] == base64.b64encode(b'"again"').decode()


def test_whatever_the_document_allows_is_answered_as_it_says(cluster: Cluster) -> None:
    told = document()
    with httpx.Client() as http:
        (port,) = free_ports(1)
        url = f"http://127.0.0.1:{port}"
        with process(cluster, port):
            (found,) = http.get(f"{url}/v3/clusters").json()["data"]
            schema = schemathesis.openapi.from_dict(told)
            for result in schema.get_all_operations():
                assert isinstance(result, Ok)
                conforms(result.ok(), url, found["cluster_id"])
            assert http.get(f"{url}/v3/clusters").status_code == 200


def conforms(operation: Any, url: str, cluster_id: str) -> None:
    """Ask an operation for some of what it allows; mostly about what is there."""

    @settings(max_examples=6, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(operation.as_strategy(), st.booleans())
    def asked(case: Any, is_there: bool) -> None:
        path = case.path_parameters
        if "cluster_id" in path:
            path["cluster_id"] = cluster_id
        if is_there and "topic_name" in path and case.method != "DELETE":
            path["topic_name"], path["partition_id"] = "t", 0
        if "follow" in (case.query or {}):
            case.query["follow"] = False
        answer = case.call(base_url=url, timeout=60)
        case.validate_response(
            answer,
            checks=[
                checks.not_a_server_error,
                checks.content_type_conformance,
                checks.response_schema_conformance,
            ],
        )

    asked()


async def test_x_54_the_owner_of_an_instance_is_killed(cluster: Cluster, tmp_path: Path) -> None:
    first, second = free_ports(2)
    urls = [f"http://127.0.0.1:{port}" for port in (first, second)]
    with (
        process(cluster, first, "--peers", urls[1]) as owner,
        process(cluster, second, "--peers", urls[0]),
    ):
        async with httpx.AsyncClient(headers=V2, timeout=60) as http:
            body = json.dumps({"auto.offset.reset": "earliest", "format": "json"})
            made = (await http.post(f"{urls[0]}/consumers/h", content=body)).json()
            path = f"{urls[1]}/consumers/h/instances/{made['instance_id']}"
            topics = json.dumps({"topics": ["t"]})
            assert (await http.post(f"{path}/subscription", content=topics)).status_code == 204
            read: list[int] = []
            while len(read) < 10:
                answer = await http.get(f"{path}/records?timeout=5000")
                read += [one["offset"] for one in answer.json()]
            assert read[:10] == list(range(10))
            # A read under way ends with its owner, and so does every later one.
            reading = asyncio.create_task(http.get(f"{path}/records?timeout=60000"))
            await http.get(f"{path}/assignments")
            owner.kill()
            owner.wait()
            for answer in (await reading, await http.get(f"{path}/records?timeout=60000")):
                assert (answer.status_code, answer.json()["error_code"]) == (404, 40403)
            assert (await http.get(f"{urls[1]}/topics")).status_code == 200
