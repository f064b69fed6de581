package subprocess

import (
	"os"

	"golang.org/x/sys/unix"
)

// pipeBytes is the size that pipes get, if the system allows it. With the usual 64 KiB, a pipe
// holds less than one SFTP packet, so both sides would have to wait for each other within each
// packet.
const pipeBytes = 1 << 20

func widen(f *os.File) {
	if raw, err := f.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, pipeBytes) })
	}
}
