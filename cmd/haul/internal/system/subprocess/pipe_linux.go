package subprocess

import (
	"os"

	"golang.org/x/sys/unix"
)

// pipeBytes is the size of a pipe, if the system allows it. The usual 64 KiB hold less than one
// SFTP packet, so both sides would wait for each other within a packet.
const pipeBytes = 1 << 20

func widen(f *os.File) {
	if raw, err := f.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, pipeBytes) })
	}
}
