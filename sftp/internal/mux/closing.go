package mux

import (
	"context"
	"errors"

	"github.com/haul-project/haul/sftp/internal/wire"
)

// A Closing is an FSETSTAT and the CLOSE behind it, which follow WRITEs without
// waiting for the answers to these.
type Closing struct {
	file     *File
	set, end *Call
}

// CloseBehind sends an FSETSTAT and a CLOSE behind the WRITEs to the file, all of which
// were sent. It returns nil, and sends nothing, unless the file is open on one lane
// alone: only in one session requests are carried out in order ([Server.InOrder]). The
// caller holds the lock of the mux.
func (f *File) CloseBehind(a wire.Attrs) *Closing {
	if len(f.handles) != 1 || len(f.opening) > 0 || f.handles[0].Lane.err != nil {
		return nil
	}
	h := f.handles[0]
	c := &Closing{file: f}
	c.set = &Call{Lane: h.Lane, Behind: true, Take: TakeOK, Build: func(b []byte, id uint32) []byte {
		return wire.AppendFsetstat(b, id, h.Handle, a)
	}}
	c.end = &Call{Lane: h.Lane, Behind: true, Take: TakeOK, Build: func(b []byte, id uint32) []byte {
		return wire.AppendClose(b, id, h.Handle)
	}}
	// Once it is closed, the server may give the handle to another file.
	f.ending = h
	f.mux.start(c.set, c.end)
	return c
}

// Await waits for both answers. It returns the first error. If that is an ErrLaneLost,
// neither may have been carried out.
func (c *Closing) Await(ctx context.Context) error {
	f := c.file
	m := f.mux
	err := m.Await(ctx, c.set)
	if e := m.Await(ctx, c.end); err == nil || errors.Is(e, ErrLaneLost) {
		err = e
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.end.At == nil {
		f.ending = Handle{} // it was never sent
	}
	return err
}
