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
	// maxSend is how many bytes of a file one system call sends: enough to make the cost of the
	// call negligible, and few enough to keep deadlines.
	maxSend = 4 << 20
)

// joins says that kernelReadFrom uses kernelCopy.join for sources that may wait.
const joins = true

// kernelReadFrom sends up to most bytes of r without a copy in this process, if the kernel can. It
// does not wait for r. writing is held.
func kernelReadFrom(c *conns.Conn, r io.Reader, most int64) kernelCopy {
	src := sourceOf(r)
	if src == nil {
		return kernelCopy{}
	}
	if sendfile.IsFile(r) { // pipes and terminals are spliced
		if m := sendFile(c, src, most); m.handled {
			return m
		}
	}
	return kernelCopy{join: func(h *Conn) kernelCopy { return splice(endpoint{ours: h}, endpoint{raw: src}, most) }}
}

// sourceOf returns the descriptor that r reads from if r is a plain file or connection, and nil
// otherwise.
func sourceOf(r io.Reader) syscall.RawConn {
	if !sendfile.IsFile(r) && !sendfile.IsStream(r) && !sendfile.IsOf(r, "net", "tcpConnWithoutWriteTo") { // see IsFile for the reason
		return nil
	}
	return sendfile.RawOf(r)
}

// kernelWriteTo writes up to most received bytes to w without a copy in this process, if the kernel
// can. It does not wait for w.
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

// sendFile sends up to most bytes of a file, from its current offset.
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

// An endpoint is one of two joined descriptors: one of our connections, or another file.
type endpoint struct {
	ours *Conn
	raw  syscall.RawConn
}

// A joint moves bytes from one endpoint to the other. It locks each endpoint only while it uses it,
// so that no call waits for one endpoint because of the other.
type joint struct {
	dst, src    endpoint
	p           sendfile.Pipe
	n, most     int64
	held        int   // bytes in the pipe
	errno       error // of the last attempt
	fill, empty func(fd uintptr) (done bool)
}

// splice moves up to most bytes from one descriptor to another through a pipe. The kernel moves
// pages instead of copying them.
func splice(dst, src endpoint, most int64) kernelCopy {
	p, err := sendfile.TakePipe()
	if err != nil {
		return kernelCopy{}
	}
	j := &joint{dst: dst, src: src, p: p, most: most}
	j.fill, j.empty = j.fillOnce, j.emptyAll // made once instead of for each turn
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
		case j.held == 0: // end of the source
			return m.end(nil)
		}
		err = j.write()
		switch m.n = j.n; {
		case j.n == 0 && sendfile.IsUnable(err), err == errUnwaitable:
			// For example, the file is open for appending.
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

// errUnwaitable says that the poller cannot wait for a descriptor that is not ours: a blocking
// pipe, or a closed one. The descriptor's own methods can wait, or report why not.
var errUnwaitable = errors.New("tcp: the poller does not wait for that")

// read waits until the source has bytes, and moves them into the pipe.
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
				return io.EOF // the call returns why the connection was ended
			}
			return nil
		})
	})
}

// write empties the pipe into the destination, and waits while there is no room.
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

// done returns the result of using a descriptor that is not ours.
func (j *joint) done(err error) error {
	switch {
	case err != nil:
		return errUnwaitable
	case j.errno != nil:
		return os.NewSyscallError("splice", j.errno)
	}
	return nil
}

// The poller calls fillOnce for read, and emptyAll for write.
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
