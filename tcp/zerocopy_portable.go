//go:build !linux || haul_portable

package tcp

import (
	"io"

	"github.com/haul-project/haul/tcp/internal/conns"
)

// joins is false because kernelReadFrom waits for its source on this system. So it is only called
// with regular files, which never wait.
const joins = false

// kernelReadFrom leaves the copy to package net, which lets the kernel copy if it can. The caller
// holds c.writing.
func kernelReadFrom(c *conns.Conn, r io.Reader, most int64) kernelCopy {
	n, ok, err := c.SendFrom(r, most)
	if !ok {
		return kernelCopy{}
	}
	return kernelCopy{n: n}.end(err)
}

// kernelWriteTo returns an unhandled copy, so that the caller copies all bytes.
func kernelWriteTo(io.Writer, int64) kernelCopy { return kernelCopy{} }
