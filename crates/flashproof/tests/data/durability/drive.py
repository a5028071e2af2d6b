# A drive with a volatile cache, as a plugin of nbdkit: data that was not flushed is lost when nbdkit is killed.
#
# lie=none   keeps what it acknowledges
# lie=all    ignores flushes and FUA
# lie=flush  ignores flushes, honours FUA
# lie=fua    ignores FUA, honours flushes
# lie=part   loses each block of a flush with a probability of 1/8, so that later writes are kept and earlier writes are lost
import os
import random
from io import open as io_open

import nbdkit

API_VERSION = 2
BLOCK = 4096
settings = {"lie": "none"}
content = bytearray()  # data that reads return
cached = set()  # blocks that are not on the medium
calls = {"write": 0, "fua": 0, "flush": 0}
medium = -1


def config(key, value):
    settings[key] = value


def get_ready():
    global medium, content
    medium = os.open(settings["file"], os.O_RDWR)
    content = bytearray(os.pread(medium, os.fstat(medium).st_size, 0))


def thread_model():
    return nbdkit.THREAD_MODEL_SERIALIZE_ALL_REQUESTS


def open(readonly):
    return 1


def get_size(handle):
    return len(content)


def can_fua(handle):
    return nbdkit.FUA_NATIVE


def can_flush(handle):
    return True


def pread(handle, buf, offset, flags):
    buf[:] = content[offset : offset + len(buf)]


def keep(block):
    at = block * BLOCK
    os.pwrite(medium, content[at : at + BLOCK], at)


def pwrite(handle, buf, offset, flags):
    content[offset : offset + len(buf)] = buf
    blocks = range(offset // BLOCK, (offset + len(buf) - 1) // BLOCK + 1)
    cached.update(blocks)
    calls["write"] += 1
    if flags & nbdkit.FLAG_FUA:
        calls["fua"] += 1
        if settings["lie"] not in ("fua", "all"):
            for block in blocks:
                keep(block)
                cached.discard(block)


def flush(handle, flags):
    calls["flush"] += 1
    if "log" in settings:
        with io_open(settings["log"], "w") as log:
            log.write(" ".join(f"{name}={count}" for name, count in calls.items()))
    if settings["lie"] in ("flush", "all"):
        return
    for block in sorted(cached):
        if settings["lie"] != "part" or random.randrange(8) > 0:
            keep(block)
    cached.clear()
