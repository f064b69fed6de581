"""Asyncssh's client as a peer of the interop tests: asyncssh_client.py < job"""

import asyncio

import asyncssh
import driver


async def run():
    job = driver.job()
    host, port = job["Addr"].rsplit(":", 1)
    known = asyncssh.import_public_key(job["HostKey"])
    async with asyncssh.connect(
        host, int(port), username=job["User"], client_keys=[job["Key"]], agent_path=None, config=None,
        known_hosts=([known], [], []),
    ) as conn:
        async with conn.start_sftp_client() as sftp:
            for name, *args in job["Ops"]:
                try:
                    driver.answer(await do(sftp, name, args))
                except NotImplementedError as e:
                    driver.answer(error=e, kind="unsupported")
                except asyncssh.SFTPError as e:
                    kinds = {2: "not exist", 3: "permission", 8: "unsupported", 10: "not exist", 11: "exist"}
                    driver.answer(error=e, kind=kinds.get(e.code, ""))
                except Exception as e:
                    driver.answer(error=e)


async def do(sftp, name, args):
    if name in ("get", "reget"):
        return await get(sftp, driver.raw(args[0]), args[1], name == "reget")
    if name in ("put", "reput"):
        return await put(sftp, args[0], driver.raw(args[1]), name == "reput")
    path = driver.raw(args[0])
    if name == "mkdir":
        return await sftp.mkdir(path)
    if name == "rmdir":
        return await sftp.rmdir(path)
    if name == "remove":
        return await sftp.remove(path)
    if name == "removeall":
        return await sftp.rmtree(path)
    if name == "move":
        return await sftp.rename(path, driver.raw(args[1]))
    if name == "rename":
        return await sftp.posix_rename(path, driver.raw(args[1]))
    if name == "symlink":
        return await sftp.symlink(path, driver.raw(args[1]))
    if name == "link":
        return await sftp.link(path, driver.raw(args[1]))
    if name == "readlink":
        return driver.latin(await sftp.readlink(path))
    if name == "realpath":
        return driver.latin(await sftp.realpath(path))
    if name in ("stat", "lstat"):
        a = await getattr(sftp, name)(path)
        return driver.attributes(a, a.size, a.permissions, a.mtime)
    if name == "list":
        return sorted(driver.latin(n) for n in await sftp.listdir(path) if n not in (b".", b".."))
    if name == "chmod":
        return await sftp.chmod(path, int(args[1], 8))
    if name == "utime":
        return await sftp.utime(path, (int(args[1]), int(args[1])))
    if name == "truncate":
        return await sftp.truncate(path, int(args[1]))
    if name == "statvfs":
        s = await sftp.statvfs(path)
        return {"total": s.blocks * s.frsize, "free": s.bfree * s.frsize}
    if name == "read":
        async with sftp.open(path, "rb") as f:
            return (await f.read(int(args[2]), int(args[1]))).hex()
    if name == "write":
        async with sftp.open(path, "r+b") as f:
            await f.write(bytes.fromhex(args[2]), int(args[1]))
            return None
    raise NotImplementedError("operation " + name)


async def get(sftp, remote, local, resume):
    if not resume:
        return await sftp.get(remote, local, follow_symlinks=True)
    async with sftp.open(remote, "rb") as f:
        with open(local, "ab") as w:
            w.write(await f.read(-1, w.tell()))


async def put(sftp, local, remote, resume):
    if not resume:
        return await sftp.put(local, remote)
    async with sftp.open(remote, "r+b") as f:
        with open(local, "rb") as r:
            n = (await f.stat()).size
            r.seek(n)
            await f.write(r.read(), n)


asyncio.run(run())
