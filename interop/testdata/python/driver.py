"""What the drivers in Python share: the language of interop/sftp_drivers_test.go."""

import json
import sys


def job():
    """What standard input tells to do. Each character of a name stands for one byte."""
    return json.load(sys.stdin)


def raw(name):
    return name.encode("latin-1")


def latin(name):
    return (name if isinstance(name, bytes) else name.encode("utf-8")).decode("latin-1")


def answer(value=None, error=None, kind=""):
    """Says what one operation came to."""
    reply = {}
    if error is not None:
        reply = {"error": "%s: %s" % (type(error).__name__, error), "kind": kind}
    elif value is not None:
        reply = {"value": value}
    print(json.dumps(reply), flush=True)


def attributes(a, size, mode, mtime):
    return {"size": size, "mode": mode, "mtime": int(mtime)}
