"""A server made of asyncssh, as a peer of the interop tests.

asyncssh_server.py DIR HOSTKEY AUTHORIZED [PASSWORD] serves DIR to the keys in
the file AUTHORIZED, or to those who know the password, and prints where.
"""

import asyncio
import sys

import asyncssh


class Login(asyncssh.SSHServer):
    password = None

    def password_auth_supported(self):
        return self.password is not None

    def validate_password(self, username, password):
        return password == self.password


async def main():
    folder, host_key, authorized, *password = sys.argv[1:]
    Login.password = password[0] if password else None
    server = await asyncssh.listen(
        "127.0.0.1", 0, server_factory=Login, server_host_keys=[host_key], authorized_client_keys=authorized,
        sftp_factory=lambda chan: asyncssh.SFTPServer(chan, chroot=folder.encode()),
    )
    print("listening on", "127.0.0.1:%d" % server.sockets[0].getsockname()[1], flush=True)
    await asyncio.Event().wait()


asyncio.run(main())
