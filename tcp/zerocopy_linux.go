//go:build linux && !haul_portable

package tcp

import (
	"errors"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/haul-project/haul/tcp/internal/conns"
	"github.com/haul-project/haul/tcp/internal/sendfile"
)

const (
	// maxSend is how many bytes of a file one system call sends. They are enough to make the cost
	// of a call negligible, and few enough for deadlines to be noticed in time.
	maxSend = 4 << 20
)

// joins says that kernelReadFrom never waits for its source. Instead it returns a kernelCopy.join,
// which waits. So kernelReadFrom may be called with sources that wait.
const joins = true

// kernelReadFrom sends at most `most` bytes of r without a copy in this process, if the kernel can
// do that. It does not wait for r. The caller holds c.writing.
func kernelReadFrom(c *conns.Conn, r io.Reader, most int64) kernelCopy {
	src := sourceOf(r)
	if src == nil {
		return kernelCopy{}
	}
	if sendfile.IsFile(r) { // pipes and terminals fail with sendfile, and are then spliced
		if m := sendFile(c, src, most); m.handled {
			return m
		}
	}
	return kernelCopy{join: func(h *Conn) kernelCopy { return splice(endpoint{ours: h}, endpoint{raw: src}, most) }}
}

// sourceOf returns the descriptor that r reads from, if r is a file of package os or a stream
// connection of package net. For any other reader it returns nil.
func sourceOf(r io.Reader) syscall.RawConn {
	// net.TCPConn.WriteTo may call io.Copy with the connection wrapped in the type
	// tcpConnWithoutWriteTo, which hides WriteTo: compare sendfile.IsFile.
	if !sendfile.IsFile(r) && !sendfile.IsStream(r) && !sendfile.IsOf(r, "net", "tcpConnWithoutWriteTo") {
		return nil
	}
	return sendfile.RawOf(r)
}

// kernelWriteTo writes at most `most` received bytes to w without a copy in this process, if the
// kernel can do that. It does not wait for w.
func kernelWriteTo(w io.Writer, most int64) kernelCopy {
	dst := endpoint{}
	if to, ok := w.(*Conn); ok {
		dst.ours = to
	} else if _, isFile := w.(*os.File); isFile || sendfile.IsStream(w) {
		if dst.raw = sendfile.RawOf(w); dst.raw == nil {
			return kernelCopy{}
		}
	} else {
		return kernelCopy{}
	}
	return kernelCopy{join: func(h *Conn) kernelCopy { return splice(dst, endpoint{ours: h}, most) }}
}

// sendFile sends at most `most` bytes of a file, from its current offset. The caller holds
// c.writing.
func sendFile(c *conns.Conn, src syscall.RawConn, most int64) (m kernelCopy) {
	var failed, waited error
	var s sendfile.Sender
	send := func(out, in uintptr) (done bool) {
		for m.n < most {
			n, err := s.Send(int(out), int(in), int(min(most-m.n, maxSend)))
			switch {
			case err == unix.EINTR:
			case err == unix.EAGAIN:
				c.WaitWrite()
				return false
			case err != nil, n == 0:
				failed = err
				return true
			default:
				m.n += int64(n)
				c.Moved()
			}
		}
		return true
	}
	reading := src.Read(func(in uintptr) bool {
		waited = c.PollWrite(func(out uintptr) bool { return send(out, in) })
		return true
	})
	switch {
	case m.n == 0 && sendfile.IsUnable(failed):
		return kernelCopy{}
	case waited != nil:
		m.err = waited
	case failed != nil:
		m.err = os.NewSyscallError("sendfile", failed)
	default:
		m.err = reading
	}
	m.handled = true
	return m
}

// An endpoint is the source or the destination of a splice. If it is a connection of this package,
// ours is set, and otherwise raw.
type endpoint struct {
	ours *Conn
	raw  syscall.RawConn
}

// A joint moves bytes from one endpoint to the other through a pipe. It locks each endpoint only
// while it uses that one, so that other calls on an endpoint never wait for the other endpoint.
type joint struct {
	dst, src    endpoint
	p           sendfile.Pipe
	n, most     int64
	held        int   // number of bytes in the pipe
	errno       error // error of the last splice
	fill, empty func(fd uintptr) (done bool)
}

// splice moves at most `most` bytes from src to dst through a pipe. The kernel moves pages instead
// of copying them.
func splice(dst, src endpoint, most int64) kernelCopy {
	p, err := sendfile.TakePipe()
	if err != nil {
		return kernelCopy{}
	}
	j := &joint{dst: dst, src: src, p: p, most: most}
	j.fill, j.empty = j.fillOnce, j.emptyAll // created once, to save an allocation in each round
	defer func() { p.GiveBack(j.held == 0) }()
	return j.move()
}

func (j *joint) move() (m kernelCopy) {
	for j.n < j.most {
		err := j.read()
		switch m.n = j.n; {
		case j.n == 0 && sendfile.IsUnable(err):
			return kernelCopy{}
		case err == errUnwaitable:
			return m
		case err != nil:
			return m.end(err)
		case j.held == 0: // the source has no more bytes
			return m.end(nil)
		}
		err = j.write()
		switch m.n = j.n; {
		case j.n == 0 && sendfile.IsUnable(err), err == errUnwaitable:
			// The kernel cannot splice to dst: for example, dst is a file that is open for appending.
			m.left = make([]byte, j.held)
			if _, err := io.ReadFull(j.p, m.left); err != nil {
				return m.end(err)
			}
			j.held = 0
			return m
		case err != nil:
			return m.end(err)
		}
	}
	return m.end(nil)
}

// errUnwaitable says that Go's poller cannot wait for a descriptor that does not belong to this
// package, such as a blocking pipe or a closed descriptor. The copy then continues with Read or
// Write of the file: they can wait for a pipe, and return the right error for a closed descriptor.
var errUnwaitable = errors.New("tcp: the poller does not wait for that")

// read waits until the source has bytes, and moves some of them into the pipe.
func (j *joint) read() error {
	if j.src.ours == nil {
		return j.done(j.src.raw.Read(j.fill))
	}
	return j.src.ours.call("read", func(c *conns.Conn) error {
		return c.Reads(0, func([]byte) error {
			err := c.PollRead(j.fill)
			switch {
			case err != nil:
				return err
			case j.errno != nil:
				return os.NewSyscallError("splice", j.errno)
			case j.held == 0 && c.Ended() != nil:
				return io.EOF // ends the copy; the call then returns the reason why the connection was ended
			}
			return nil
		})
	})
}

// write empties the pipe into the destination. It waits while the destination has no room.
func (j *joint) write() error {
	if j.dst.ours == nil {
		return j.done(j.dst.raw.Write(j.empty))
	}
	return j.dst.ours.call("write", func(c *conns.Conn) error {
		return c.Writes(func() error {
			err := c.PollWrite(j.empty)
			if err == nil && j.errno != nil {
				err = os.NewSyscallError("splice", j.errno)
			}
			return err
		})
	})
}

// done returns the error of read or write for an endpoint that is not a connection of this package.
// err is the poller's error.
func (j *joint) done(err error) error {
	switch {
	case err != nil:
		return errUnwaitable
	case j.errno != nil:
		return os.NewSyscallError("splice", j.errno)
	}
	return nil
}

// PollRead and RawConn.Read call fillOnce, and PollWrite and RawConn.Write call emptyAll, whenever
// the descriptor may be ready. Both return false to be called again.
func (j *joint) fillOnce(in uintptr) bool {
	j.held, j.errno = sendfile.Splice(int(in), j.p.W, int(min(j.most-j.n, sendfile.PipeSize)))
	if j.src.ours != nil {
		switch c := j.src.ours.c; {
		case j.errno == unix.EAGAIN:
			c.WaitRead()
		case j.held > 0:
			c.Heard()
		}
	}
	return j.errno != unix.EAGAIN
}

func (j *joint) emptyAll(out uintptr) bool {
	for j.held > 0 {
		var n int
		n, j.errno = sendfile.Splice(j.p.R, int(out), j.held)
		j.held -= n
		j.n += int64(n)
		if j.dst.ours != nil {
			c := j.dst.ours.c
			if n > 0 {
				c.Moved()
			}
			if j.errno == unix.EAGAIN {
				c.WaitWrite()
			}
		}
		if j.errno != nil {
			break
		}
	}
	return j.errno != unix.EAGAIN
}
