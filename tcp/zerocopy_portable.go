//go:build !linux || haul_portable

package tcp

import (
	"io"
)

// joins says that sysReadFrom would wait for its source itself, so it gets regular files
// only.
const joins = false

// Where these do nothing, package net copies, by the kernel if it can.

func (c *conn) sysReadFrom(r io.Reader, most int64) kernelCopy {
	to, ok := c.nc.(io.ReaderFrom)
	if !ok || c.shared.ticks.idle > 0 { // its progress would be invisible
		return kernelCopy{}
	}
	c.waits(&c.writeWait)
	n, err := to.ReadFrom(io.LimitReader(r, most))
	c.writeWait.Store(0)
	return kernelCopy{n: n}.end(unnamed(err))
}

func (c *conn) sysWriteTo(w io.Writer, most int64) kernelCopy { return kernelCopy{} }
