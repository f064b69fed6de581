package subprocess

import (
	"os"

	"golang.org/x/sys/unix"
)

// pipeBytes is what fits into a pipe, if the system allows that: the common 64 KiB are less
// than one packet of SFTP, so that both sides would wait for each other within it.
const pipeBytes = 1 << 20

func widen(f *os.File) {
	if raw, err := f.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, pipeBytes) })
	}
}
