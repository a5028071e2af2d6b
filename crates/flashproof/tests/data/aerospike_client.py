"""Uses a server through Aerospike's own Python client: `aerospike_client.py HOST PORT`.

Prints a line for each step that succeeds. The first step that does not ends the script with a failed assertion.
"""

import sys
import time

import aerospike
from aerospike import exception
from aerospike_helpers.batch import records
from aerospike_helpers.operations import list_operations, operations

host, port = sys.argv[1], int(sys.argv[2])
# Long timeouts, because the machine may be busy.
patient = {"total_timeout": 10000}
client = aerospike.client({"hosts": [(host, port)], "policies": {"read": patient, "write": patient, "batch": patient}}).connect()
key = ("test", "people", "ada")


def step(name):
    print(name, flush=True)


def refused(error, call, *args, **kwargs):
    """Asserts that the call raises exactly `error`, and returns the exception."""
    try:
        call(*args, **kwargs)
    except exception.AerospikeError as raised:
        assert type(raised) is error, (type(raised), raised)
        return raised
    raise AssertionError(f"{error} was not raised")


refused(exception.RecordNotFound, client.get, key)
assert client.exists(key)[1] is None
refused(exception.RecordNotFound, client.remove, key)
step("a record that is not there")

bins = {"i": -5, "f": 2.5, "s": "Grüße", "b": bytearray(range(256)), "yes": True, "list": [1, "two", {"three": 3}]}
client.put(key, bins, {"ttl": 3600})
_, meta, read = client.get(key)
assert read == {**bins, "b": bytes(range(256))}, read
assert meta["gen"] == 1 and 3590 <= meta["ttl"] <= 3600, meta
assert client.exists(key)[1]["gen"] == 1
assert client.select(key, ["i", "s", "none"])[2] == {"i": -5, "s": "Grüße"}
step("put, get, exists, select, time to live")

client.increment(key, "i", 47)
client.append(key, "s", "!")
client.prepend(key, "s", ">")
client.touch(key, 7200)
_, meta, read = client.get(key)
assert (read["i"], read["s"], meta["gen"]) == (42, ">Grüße!", 5), (read, meta)
assert 7190 <= meta["ttl"] <= 7200, meta
refused(exception.BinIncompatibleType, client.increment, key, "s", 1)
refused(exception.BinIncompatibleType, client.append, key, "i", "x")
client.remove_bin(key, ["yes", "list"])
assert sorted(client.get(key)[2]) == ["b", "f", "i", "s"]
step("increment, append, prepend, touch, remove a bin")

_, meta, read = client.operate(key, [
    operations.increment("i", 8), operations.write("n", "new"), operations.read("i"), operations.read("n"),
])
assert (read, meta["gen"]) == ({"i": 50, "n": "new"}, 7), (read, meta)
_, _, answers = client.operate_ordered(key, [operations.read("i"), operations.increment("i", 1), operations.read("i")])
assert [answer for answer in answers if answer[1] is not None] == [("i", 50), ("i", 51)], answers
step("operate, several at once and in order")

generation = client.get(key)[1]["gen"]
equal = {"gen": aerospike.POLICY_GEN_EQ}
refused(exception.RecordGenerationError, client.put, key, {"i": 1}, {"gen": generation - 1}, equal)
client.put(key, {"i": 1}, {"gen": generation}, equal)
refused(exception.RecordExistsError, client.put, key, {"i": 1}, None, {"exists": aerospike.POLICY_EXISTS_CREATE})
missing = ("test", "people", "nobody")
for policy in (aerospike.POLICY_EXISTS_UPDATE, aerospike.POLICY_EXISTS_REPLACE):
    refused(exception.RecordNotFound, client.put, missing, {"i": 1}, None, {"exists": policy})
client.put(key, {"only": 1}, None, {"exists": aerospike.POLICY_EXISTS_CREATE_OR_REPLACE})
assert client.get(key)[2] == {"only": 1}
refused(exception.RecordGenerationError, client.remove, key, policy={"gen": aerospike.POLICY_GEN_EQ, "generation": 1})
step("generations and whether there is a record")

client.put(("test", "people", 7), {"i": 7}, None, {"key": aerospike.POLICY_KEY_SEND})
client.put(("test", None, b"\0\xff"), {"i": 8})
assert client.get(("test", "people", 7))[2] == {"i": 7} and client.get(("test", None, b"\0\xff"))[2] == {"i": 8}
client.put(("test", "people", None, bytearray(range(20))), {"i": 9})
assert client.get(("test", "people", None, bytearray(range(20))))[2] == {"i": 9}
client.put(("test", "short", "lived"), {"i": 1}, {"ttl": 1})
step("keys of every type, sent with the record or not, and digests")

keys = [("test", "many", number) for number in range(500)]
written = client.batch_write(records.BatchRecords([
    records.Write(key, [operations.write("n", key[2]), operations.write("pad", "x" * 100)]) for key in keys
]), patient)
assert all(record.result == 0 for record in written.batch_records), [record.result for record in written.batch_records][:5]
read = client.batch_read(keys + [missing])
assert [record.result for record in read.batch_records] == [0] * 500 + [2]
assert [record.record[2]["n"] for record in read.batch_records[:500]] == list(range(500))
some = client.batch_read(keys[:5], ["n"])
assert [record.record[2] for record in some.batch_records] == [{"n": number} for number in range(5)]
exists = client.batch_read(keys[:5], [])
assert all(record.result == 0 and record.record[1]["gen"] == 1 for record in exists.batch_records)
mixed = client.batch_write(records.BatchRecords([
    records.Read(keys[0], [operations.read("n")]),
    records.Write(keys[1], [operations.increment("n", 100), operations.read("n")]),
    records.Remove(keys[2]),
    records.Remove(missing),
]), patient)
assert [record.result for record in mixed.batch_records] == [0, 0, 0, 2], [record.result for record in mixed.batch_records]
assert mixed.batch_records[1].record[2] == {"n": 101}
assert all(record.result == 0 for record in client.batch_remove(keys[3:], patient).batch_records)
assert client.exists(keys[2])[1] is None and client.exists(keys[3])[1] is None and client.exists(keys[0])[1] is not None
step("batches that read, write and delete")

keys = [("test", "copies", number) for number in range(400)]
for key_of, number in zip(keys, range(400)):
    client.put(key_of, {"n": number}, None, {"key": aerospike.POLICY_KEY_SEND})
for name in ["MASTER", "ANY", "SEQUENCE", "PREFER_RACK", "RANDOM"]:
    policy = {"replica": getattr(aerospike, "POLICY_REPLICA_" + name), "max_retries": 0, **patient}
    assert [client.get(key_of, policy)[2]["n"] for key_of in keys] == list(range(400)), name
    assert [record.record[2]["n"] for record in client.batch_read(keys, policy=policy).batch_records] == list(range(400)), name
assert all(record.result == 0 for record in client.batch_remove(keys, patient).batch_records)
step("400 reads by each policy of replicas")

refused(exception.NamespaceNotFound, client.get, ("other", None, 1))
refused(exception.RecordTooBig, client.put, key, {"big": bytearray(1 << 20)})
refused(exception.UnsupportedFeature, client.query("test", "people").results)
refused(exception.UnsupportedFeature, client.apply, key, "module", "function", [])
refused(exception.UnsupportedFeature, client.operate, key, [list_operations.list_append("only", 1)])
for call in [client.put, client.get, client.remove]:
    more = [{"only": 2}] if call == client.put else []
    raised = refused(exception.AerospikeError, call, key, *more, policy={"txn": aerospike.Transaction()})
    assert raised.code == 25, raised
assert client.get(key)[2] == {"only": 1}
step("what is not done, and what is too much")

answers = client.info_all("statistics\nnamespace/test\n")
assert answers and all(failure is None and "objects=" in answer for failure, answer in answers.values()), answers
print(len(answers), "nodes")
deadline = time.monotonic() + 20
while client.exists(("test", "short", "lived"))[1] is not None:
    assert time.monotonic() < deadline, "the time to live of 1 s is over"
    time.sleep(0.1)
step("info, and the end of a time to live")
client.remove(key)
refused(exception.RecordNotFound, client.get, key)
client.close()
step("all steps held")
