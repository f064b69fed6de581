//go:build linux && !haul_portable

package tcp

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// maxSend is how much of a file the kernel is handed at once: enough for the
	// system call not to count, and little enough for deadlines to be kept.
	maxSend = 4 << 20

	// pipeSize is how much a pipe holds through which a connection is joined to
	// another, or to a file; and maxPipes how many are kept for the next.
	pipeSize = 256 << 10
	maxPipes = 64
)

// sysReadFrom sends at most so many bytes of r, without a copy in this process, if
// the kernel can do that.
func (c *conn) sysReadFrom(r io.Reader, most int64) moved {
	src, isFile := sourceOf(r)
	if src == nil {
		return moved{}
	}
	if isFile { // what is a pipe, or a terminal, is spliced
		if m := c.sendFile(src, most); m.handled {
			return m
		}
	}
	dst, err := c.poll()
	if err != nil {
		return moved{handled: true, err: err}
	}
	defer c.writeWait.Store(0)
	return splice(notifying{dst, c}, src, most)
}

// sourceOf returns the descriptor that r reads from, if it is known to be a file or a
// connection and nothing more; nil otherwise.
//
// Files and connections of the standard library have a WriteTo, which gives what it
// cannot do itself to io.Copy, as a value of a hidden type without that method. A
// program's own type around one of them would have the method too.
func sourceOf(r io.Reader) (src syscall.RawConn, isFile bool) {
	_, isFile = r.(*os.File)
	switch r.(type) {
	case *os.File, *net.TCPConn, *net.UnixConn:
	default:
		if _, ok := r.(io.WriterTo); ok {
			return nil, false
		}
		_, isConn := r.(net.Conn)
		if _, isFile = r.(fs.File); !isFile && !isConn {
			return nil, false
		}
	}
	s, ok := r.(syscall.Conn)
	if !ok {
		return nil, false
	}
	src, err := s.SyscallConn()
	if err != nil {
		return nil, false
	}
	return src, isFile
}

// sysWriteTo hands at most so many received bytes to w, without a copy in this
// process, if the kernel can do that.
func (c *conn) sysWriteTo(w io.Writer, most int64) moved {
	var dst syscall.RawConn
	var err error
	switch w := w.(type) {
	case *Conn:
		d, ok := w.take()
		if !ok {
			return moved{handled: true, err: net.ErrClosed}
		}
		defer d.drop()
		d.writing.Lock()
		defer d.writing.Unlock()
		if dst, err = d.poll(); err == nil {
			defer d.writeWait.Store(0)
			dst = notifying{dst, d}
		}
	case *net.TCPConn:
		dst, err = w.SyscallConn()
	case *net.UnixConn:
		dst, err = w.SyscallConn()
	case *os.File:
		dst, err = w.SyscallConn()
	default:
		return moved{}
	}
	if err != nil {
		return moved{handled: true, err: err}
	}
	src, err := c.poll()
	if err != nil {
		return moved{handled: true, err: err}
	}
	defer c.readWait.Store(0)
	return splice(dst, notifying{src, c}, most)
}

// A notifying is the descriptor of a connection, of which it is noted what is moved
// and when it waits.
type notifying struct {
	syscall.RawConn
	c *conn
}

func (n notifying) Read(try func(uintptr) bool) error {
	return n.RawConn.Read(func(fd uintptr) bool {
		done := try(fd)
		if !done {
			n.c.waits(&n.c.readWait)
		} else {
			n.c.heard()
		}
		return done
	})
}

func (n notifying) Write(try func(uintptr) bool) error {
	return n.RawConn.Write(func(fd uintptr) bool {
		done := try(fd)
		if n.c.sent(); !done {
			n.c.waits(&n.c.writeWait)
		}
		return done
	})
}

// sendFile sends at most so many bytes of a file, from where it stands.
func (c *conn) sendFile(src syscall.RawConn, most int64) (m moved) {
	dst, err := c.poll()
	if err != nil {
		return moved{handled: true, err: err}
	}
	var failed, waited error
	send := func(out, in uintptr) (done bool) {
		for m.n < most {
			n, err := unix.Sendfile(int(out), int(in), nil, int(min(most-m.n, maxSend)))
			switch {
			case err == unix.EINTR:
			case err == unix.EAGAIN:
				c.waits(&c.writeWait)
				return false
			case err != nil, n == 0:
				failed = err
				return true
			default:
				m.n += int64(n)
				c.sent()
			}
		}
		return true
	}
	reading := src.Read(func(in uintptr) bool {
		waited = dst.Write(func(out uintptr) bool { return send(out, in) })
		return true
	})
	c.writeWait.Store(0)
	switch {
	case m.n == 0 && isUnable(failed):
		return moved{}
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

// isUnable reports whether a system call is not for such descriptors.
func isUnable(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP) ||
		errors.Is(err, unix.ENOTSOCK) || errors.Is(err, unix.ESPIPE) || errors.Is(err, unix.EBADF)
}

// splice moves at most so many bytes from one descriptor to another through a pipe,
// in which the kernel hands on pages instead of copying them.
func splice(dst, src syscall.RawConn, most int64) (m moved) {
	p, err := takePipe()
	if err != nil {
		return moved{}
	}
	held := 0 // in the pipe
	defer func() { p.giveBack(held == 0) }()
	var failed error
	fill := func(in uintptr) bool {
		held, failed = spliceSome(int(in), p.w, int(min(most-m.n, pipeSize)))
		return failed != unix.EAGAIN
	}
	empty := func(out uintptr) bool {
		for held > 0 {
			var n int
			if n, failed = spliceSome(p.r, int(out), held); failed != nil {
				return failed != unix.EAGAIN
			}
			held -= n
			m.n += int64(n)
		}
		return true
	}
	for m.n < most {
		err := src.Read(fill)
		switch {
		case err != nil:
			return m.end(err)
		case failed != nil && m.n == 0 && isUnable(failed):
			return moved{}
		case failed != nil:
			return m.end(os.NewSyscallError("splice", failed))
		case held == 0: // the end
			return m.end(nil)
		}
		err = dst.Write(empty)
		switch {
		case err != nil:
			return m.end(err)
		case failed != nil && m.n == 0 && isUnable(failed):
			// As for a file that is only appended to.
			m.left = make([]byte, held)
			if _, err := io.ReadFull(p, m.left); err != nil {
				return m.end(err)
			}
			held = 0
			return m
		case failed != nil:
			return m.end(os.NewSyscallError("splice", failed))
		}
	}
	return m.end(nil)
}

func spliceSome(from, to, n int) (int, error) {
	for {
		m, err := unix.Splice(from, nil, to, nil, n, unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
		if err != unix.EINTR {
			return max(int(m), 0), err
		}
	}
}

// A pipe joins two descriptors.
type pipe struct{ r, w int }

var pipes = make(chan pipe, maxPipes)

func takePipe() (pipe, error) {
	select {
	case p := <-pipes:
		return p, nil
	default:
	}
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return pipe{}, err
	}
	// Where a user may have no more of such memory, it stays as small as it is made.
	_, _ = unix.FcntlInt(uintptr(fds[0]), unix.F_SETPIPE_SZ, pipeSize)
	return pipe{fds[0], fds[1]}, nil
}

// giveBack keeps an empty pipe for the next one.
func (p pipe) giveBack(empty bool) {
	if empty {
		select {
		case pipes <- p:
			return
		default:
		}
	}
	_, _ = unix.Close(p.r), unix.Close(p.w)
}

// Read takes out what is in the pipe.
func (p pipe) Read(b []byte) (int, error) {
	n, err := unix.Read(p.r, b)
	return max(n, 0), err
}
