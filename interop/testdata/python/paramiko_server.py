"""A server made of paramiko, as a peer of the interop tests.

paramiko_server.py DIR HOSTKEY AUTHORIZED serves DIR to the one key that the
file AUTHORIZED holds, and says where.
"""

import base64
import os
import socket
import sys
import threading

import paramiko
from paramiko import SFTP_OK, SFTPAttributes, SFTPHandle, SFTPServer, SFTPServerInterface


class Login(paramiko.ServerInterface):
    def __init__(self, allowed):
        self.allowed = allowed

    def get_allowed_auths(self, username):
        return "publickey"

    def check_auth_publickey(self, username, key):
        if key.asbytes() == self.allowed:
            return paramiko.AUTH_SUCCESSFUL
        return paramiko.AUTH_FAILED

    def check_channel_request(self, kind, chanid):
        if kind == "session":
            return paramiko.OPEN_SUCCEEDED
        return paramiko.OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED


class Handle(SFTPHandle):
    def stat(self):
        return attempt(lambda: SFTPAttributes.from_stat(os.fstat(self.readfile.fileno())))

    def chattr(self, attr):
        return attempt(lambda: change(self.filename, attr))


def attempt(f):
    """Calls f, and turns what goes wrong into SFTP's words for it."""
    try:
        result = f()
    except OSError as e:
        return SFTPServer.convert_errno(e.errno)
    return SFTP_OK if result is None else result


def change(path, attr):
    if attr._flags & attr.FLAG_SIZE:
        os.truncate(path, attr.st_size)
        attr._flags &= ~attr.FLAG_SIZE
    SFTPServer.set_file_attr(path, attr)


class Files(SFTPServerInterface):
    root = ""

    def real(self, path):
        return self.root + self.canonicalize(path)

    def list_folder(self, path):
        def entries():
            out = []
            for entry in os.scandir(self.real(path)):
                a = SFTPAttributes.from_stat(entry.stat(follow_symlinks=False))
                a.filename = entry.name
                out.append(a)
            return out

        return attempt(entries)

    def stat(self, path):
        return attempt(lambda: SFTPAttributes.from_stat(os.stat(self.real(path))))

    def lstat(self, path):
        return attempt(lambda: SFTPAttributes.from_stat(os.lstat(self.real(path))))

    def open(self, path, flags, attr):
        def handle():
            name = self.real(path)
            mode = getattr(attr, "st_mode", None)
            fd = os.open(name, flags, 0o644 if mode is None else mode)
            access = flags & (os.O_RDONLY | os.O_WRONLY | os.O_RDWR)
            how = {os.O_RDONLY: "rb", os.O_WRONLY: "ab" if flags & os.O_APPEND else "wb"}.get(access, "r+b")
            h = Handle(flags)
            h.filename = name
            h.readfile = h.writefile = os.fdopen(fd, how)
            return h

        return attempt(handle)

    def remove(self, path):
        return attempt(lambda: os.remove(self.real(path)))

    def rename(self, old, new):
        def move():
            if os.path.lexists(self.real(new)):
                raise FileExistsError(17, "it exists")
            os.rename(self.real(old), self.real(new))

        return attempt(move)

    def posix_rename(self, old, new):
        return attempt(lambda: os.replace(self.real(old), self.real(new)))

    def mkdir(self, path, attr):
        return attempt(lambda: os.mkdir(self.real(path)))

    def rmdir(self, path):
        return attempt(lambda: os.rmdir(self.real(path)))

    def chattr(self, path, attr):
        return attempt(lambda: change(self.real(path), attr))

    def symlink(self, target, path):
        return attempt(lambda: os.symlink(target, self.real(path)))

    def readlink(self, path):
        return attempt(lambda: os.readlink(self.real(path)))


def serve(conn, host_key, allowed):
    transport = paramiko.Transport(conn)
    transport.add_server_key(host_key)
    transport.set_subsystem_handler("sftp", SFTPServer, Files)
    try:
        transport.start_server(server=Login(allowed))
    except (paramiko.SSHException, EOFError) as e:
        print(e, file=sys.stderr)


def main():
    Files.root = sys.argv[1]
    host_key = paramiko.Ed25519Key(filename=sys.argv[2])
    with open(sys.argv[3]) as f:
        allowed = base64.b64decode(f.read().split()[1])
    listener = socket.create_server(("127.0.0.1", 0))
    print("listening on", "%s:%d" % listener.getsockname(), flush=True)
    while True:
        conn, _ = listener.accept()
        # Its replies are several packets each, which Nagle's algorithm would hold up.
        conn.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=serve, args=(conn, host_key, allowed), daemon=True).start()


main()
