"""Paramiko's client as a peer of the interop tests: paramiko_client.py < job"""

import errno
import os
import socket

import driver
import paramiko


def run():
    job = driver.job()
    host, port = job["Addr"].rsplit(":", 1)
    key = paramiko.Ed25519Key(filename=job["Key"])
    known = paramiko.Ed25519Key(data=__import__("base64").b64decode(job["HostKey"].split()[1]))
    transport = paramiko.Transport(socket.create_connection((host, int(port))))
    transport.connect(hostkey=known, username=job["User"], pkey=key)
    sftp = paramiko.SFTPClient.from_transport(transport)
    for name, *args in job["Ops"]:
        try:
            driver.answer(do(sftp, name, args))
        except NotImplementedError as e:
            driver.answer(error=e, kind="unsupported")
        except OSError as e:
            kinds = {errno.ENOENT: "not exist", errno.EACCES: "permission"}
            kind = kinds.get(e.errno, "unsupported" if "unsupported" in str(e).lower() else "")
            driver.answer(error=e, kind=kind)
        except Exception as e:
            driver.answer(error=e)
    transport.close()


def do(sftp, name, args):
    if name in ("get", "reget"):
        return get(sftp, driver.raw(args[0]), args[1], name == "reget")
    if name in ("put", "reput"):
        return put(sftp, args[0], driver.raw(args[1]), name == "reput")
    path = driver.raw(args[0])
    if name == "mkdir":
        return sftp.mkdir(path, 0o755)
    if name == "rmdir":
        return sftp.rmdir(path)
    if name == "remove":
        return sftp.remove(path)
    if name == "move":
        return sftp.rename(path, driver.raw(args[1]))
    if name == "rename":
        return sftp.posix_rename(path, driver.raw(args[1]))
    if name == "symlink":
        return sftp.symlink(path, driver.raw(args[1]))
    if name == "readlink":
        return driver.latin(sftp.readlink(path))
    if name == "realpath":
        return driver.latin(sftp.normalize(path))
    if name in ("stat", "lstat"):
        a = getattr(sftp, name)(path)
        return driver.attributes(a, a.st_size, a.st_mode, a.st_mtime)
    if name == "list":
        return sorted(driver.latin(n) for n in sftp.listdir(path))
    if name == "chmod":
        return sftp.chmod(path, int(args[1], 8))
    if name == "utime":
        return sftp.utime(path, (int(args[1]), int(args[1])))
    if name == "truncate":
        return sftp.truncate(path, int(args[1]))
    if name == "read":
        with sftp.open(path, "rb") as f:
            f.seek(int(args[1]))
            return f.read(int(args[2])).hex()
    if name == "write":
        with sftp.open(path, "r+b") as f:
            f.seek(int(args[1]))
            f.write(bytes.fromhex(args[2]))
            return None
    raise NotImplementedError("operation " + name)


def get(sftp, remote, local, resume):
    if not resume:
        return sftp.get(remote, local)
    with sftp.open(remote, "rb") as f, open(local, "ab") as w:
        f.prefetch()
        f.seek(w.tell())
        while data := f.read(1 << 20):
            w.write(data)


def put(sftp, local, remote, resume):
    if not resume:
        sftp.put(local, remote)
        return
    with sftp.open(remote, "r+b") as f, open(local, "rb") as r:
        f.set_pipelined(True)
        n = f.stat().st_size
        f.seek(n)
        r.seek(n)
        while data := r.read(1 << 20):
            f.write(data)


if __name__ == "__main__":
    run()
    os._exit(0)  # its threads may linger
