//go:build !linux || haul_portable

package tcp

import (
	"io"

	"github.com/haul-project/haul/tcp/internal/conns"
)

// joins is false because kernelReadFrom would itself wait for its source. So it is only called for
// regular files.
const joins = false

// kernelReadFrom lets package net copy, which uses the kernel if it can.
func kernelReadFrom(c *conns.Conn, r io.Reader, most int64) kernelCopy {
	n, ok, err := c.SendFrom(r, most)
	if !ok {
		return kernelCopy{}
	}
	return kernelCopy{n: n}.end(err)
}

// kernelWriteTo leaves the copy to the caller.
func kernelWriteTo(io.Writer, int64) kernelCopy { return kernelCopy{} }
