//go:build linux && !haul_portable

package conns

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/haul-project/haul/tcp/internal/deadline"
	"github.com/haul-project/haul/tcp/internal/rawsock"
)

// A sock is the system's connection. At first it is a bare descriptor that Go's scheduler does not
// know. That is enough for many connections: their request had arrived when they were accepted, and
// the answer fits into the socket's send buffer. The first call that must wait registers the
// descriptor with Go's network poller.
type sock struct {
	status

	FD   int
	From unix.RawSockaddrAny

	// in and out are the state of the current receive and send; in is guarded by reading, and out
	// by writing.
	in, out  transfer
	waitStep func(fd uintptr) (done bool) // the method value of readyToRead, created once; guarded by reading
	// looked means that readyToRead has already looked, and there was nothing to read; guarded by
	// reading.
	looked bool
	yields bool // waitReadable returns when the server begins to end; guarded by reading
	// wait is the error with which waitReadable returns, if it stops waiting before there is
	// something to read; guarded by reading.
	wait error
	// likely means that a receive probably finds bytes, so try it before the poller; guarded by
	// reading.
	likely bool

	// The deadlines, in nanoseconds of Unix time; 0 means no deadline.
	readBy, writeBy atomic.Int64

	nudged atomic.Bool // Nudge moved the read deadline into the past, to wake a waiting call

	polled atomic.Bool     // file and raw are set, and do not change before the connection is closed
	mu     sync.Mutex      // guards file and the changes of its deadlines
	file   *os.File        // owns FD once it is set
	raw    syscall.RawConn // gives access to file's descriptor
}

// A transfer is the state of a send or receive while the poller calls its step function. It is
// stored in the connection, and step is created once, so that a call allocates nothing.
type transfer struct {
	b     []byte
	n     int
	errno syscall.Errno
	flags int
	step  func(fd uintptr) (done bool)
}

const (
	// maxDirect is how many bytes one raw system call sends. The scheduler does not know of such a
	// call, so it must be short: copying that many bytes takes some microseconds.
	maxDirect = 64 << 10
)

// Reset prepares c for a new connection, whose descriptor is already in FD.
func (c *sock) Reset() {
	c.readBy.Store(0)
	c.writeBy.Store(0)
	c.nudged.Store(false)
	c.polled.Store(false)
	c.likely = false
}

func (c *sock) receive(b []byte) (int, error) {
	polled := c.polled.Load()
	if !polled || c.likely { // a raw system call is safe: the descriptor is not reused during this call
		if deadline.IsPast(&c.readBy) {
			return 0, os.ErrDeadlineExceeded
		}
		n, errno := rawsock.Recv(c.FD, b, 0)
		if c.likely = n == len(b); errno != unix.EAGAIN {
			return received(n, errno)
		}
	}
	if !polled {
		c.letOthers()
		if n, errno := rawsock.Recv(c.FD, b, 0); errno != unix.EAGAIN {
			return received(n, errno)
		}
	}
	if c.in.step == nil {
		c.in.step = func(fd uintptr) bool {
			c.in.n, c.in.errno = rawsock.Recv(int(fd), c.in.b, 0)
			if c.in.errno == unix.EAGAIN {
				c.waits(&c.readWait)
				return false
			}
			return true
		}
	}
	c.in.b = b
	err := c.PollRead(c.in.step)
	c.in.b = nil
	if err != nil {
		return 0, err
	}
	return received(c.in.n, c.in.errno)
}

// letOthers yields to other goroutines before a connection is registered with the poller. On a busy
// server, the data has often arrived by the time they have run.
func (c *sock) letOthers() {
	c.waits(&c.readWait)
	runtime.Gosched()
	c.readWait.Store(0)
}

func received(n int, errno syscall.Errno) (int, error) {
	switch {
	case errno != 0:
		return 0, os.NewSyscallError("read", errno)
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// send writes all of b. If last is set, the kernel holds back a partial segment until the
// connection is closed, but for at most 200 ms.
func (c *sock) send(b []byte, last bool) (n int, err error) {
	flags := sendFlags(last)
	if deadline.IsPast(&c.writeBy) {
		return 0, os.ErrDeadlineExceeded
	}
	// As long as the send buffer has room, the poller is not needed.
	var errno syscall.Errno
	if n, errno = c.sendSome(c.FD, b, flags); errno != unix.EAGAIN {
		return written(n, errno)
	}
	if c.out.step == nil {
		c.out.step = func(fd uintptr) bool {
			var n int
			n, c.out.errno = c.sendSome(int(fd), c.out.b[c.out.n:], c.out.flags)
			c.out.n += n
			if c.out.errno == unix.EAGAIN {
				c.waits(&c.writeWait)
				return false
			}
			return true
		}
	}
	c.out.b, c.out.n, c.out.flags = b, n, flags
	err = c.PollWrite(c.out.step)
	n, c.out.b = c.out.n, nil
	if err != nil {
		return n, err
	}
	return written(n, c.out.errno)
}

func written(n int, errno syscall.Errno) (int, error) {
	if errno != 0 {
		return n, os.NewSyscallError("write", errno)
	}
	return n, nil
}

// TrySend sends as many bytes as the send buffer has room for, without waiting.
func (c *sock) TrySend(b []byte, last bool) (int, error) {
	n, errno := c.sendSome(c.FD, b, sendFlags(last))
	if errno == unix.EAGAIN {
		errno = 0
	}
	return written(n, errno)
}

// sendFlags returns the flags for a send call. If last is set, the kernel holds back a partial
// segment, so that the same segment can carry the FIN.
func sendFlags(last bool) int {
	if last {
		return unix.MSG_NOSIGNAL | unix.MSG_MORE
	}
	return unix.MSG_NOSIGNAL
}

// sendSome sends as much of b as the send buffer has room for. EAGAIN means that the buffer is
// full.
func (c *sock) sendSome(fd int, b []byte, flags int) (n int, errno syscall.Errno) {
	for {
		some, errno := rawsock.Send(fd, b[n:min(len(b), n+maxDirect)], flags)
		if errno != 0 {
			return n, errno
		}
		if n += some; some > 0 {
			c.Moved()
		}
		if n == len(b) {
			return n, 0
		}
	}
}

// PollRead calls step at once, and again whenever the descriptor may be readable, until step
// returns true. Before step returns false, it must call WaitRead. The caller holds reading.
func (c *sock) PollRead(step func(fd uintptr) (done bool)) error {
	raw, err := c.poll()
	if err != nil {
		return err
	}
	err = raw.Read(step)
	c.readWait.Store(0)
	return err
}

// PollWrite is PollRead for writing: step calls WaitWrite, and the caller holds writing.
func (c *sock) PollWrite(step func(fd uintptr) (done bool)) error {
	raw, err := c.poll()
	if err != nil {
		return err
	}
	err = raw.Write(step)
	c.writeWait.Store(0)
	return err
}

// WaitRead records that the step function of PollRead starts to wait.
func (c *sock) WaitRead() { c.waits(&c.readWait) }

// WaitWrite records that the step function of PollWrite starts to wait.
func (c *sock) WaitWrite() { c.waits(&c.writeWait) }

// poll returns access to the descriptor through the poller. The first call registers it there.
func (c *sock) poll() (syscall.RawConn, error) {
	if c.polled.Load() {
		return c.raw, nil // safe without mu, because raw is not changed while the connection is in use
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isClosed() {
		return nil, net.ErrClosed
	}
	if c.file != nil {
		return c.raw, nil
	}
	file := os.NewFile(uintptr(c.FD), "connection")
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, err // the finalizer of file closes the descriptor
	}
	c.file, c.raw = file, raw
	c.polled.Store(true)
	return raw, errors.Join(setFileDeadline(file.SetReadDeadline, c.readBy.Load()), setFileDeadline(file.SetWriteDeadline, c.writeBy.Load()))
}

func setFileDeadline(set func(time.Time) error, by int64) error {
	if by == 0 {
		return nil
	}
	return set(time.Unix(0, by))
}

// interrupt makes waiting calls of a closed connection return.
func (c *sock) interrupt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.file != nil {
		_ = c.file.SetDeadline(time.Unix(1, 0))
	}
}

// Shutdown closes both halves of the connection. Waiting calls return, and later ones fail.
func (c *sock) Shutdown() { _ = unix.Shutdown(c.FD, unix.SHUT_RDWR) }

// Discard closes the descriptor. The caller makes sure that no call uses it any more.
func (c *sock) Discard() {
	if c.file == nil {
		rawsock.Close(c.FD)
		return
	}
	_ = c.file.Close()
	c.file, c.raw = nil, nil
}

func (c *sock) SetDeadlines(t time.Time, read, write bool) error {
	by := deadline.Nanoseconds(t)
	if by == deadline.FarAway {
		t = time.Time{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isClosed() {
		return net.ErrClosed // a later deadline would make calls wait again that Close has interrupted
	}
	if read {
		c.readBy.Store(by)
	}
	if write {
		c.writeBy.Store(by)
	}
	switch {
	case c.file == nil:
		return nil
	case read && write:
		return c.file.SetDeadline(t)
	case read:
		return c.file.SetReadDeadline(t)
	}
	return c.file.SetWriteDeadline(t)
}

func (c *sock) HalfClose(read bool) error {
	how := unix.SHUT_WR
	if read {
		how = unix.SHUT_RD
	}
	return os.NewSyscallError("shutdown", unix.Shutdown(c.FD, how))
}

func (c *sock) SetNoDelay(on bool) error {
	if c.From.Addr.Family == unix.AF_UNIX || c.From.Addr.Family == unix.AF_UNSPEC {
		return nil // unix sockets do not have the option
	}
	return os.NewSyscallError("setsockopt", unix.SetsockoptInt(c.FD, unix.IPPROTO_TCP, unix.TCP_NODELAY, rawsock.Bool(on)))
}

func (c *sock) SetLinger(seconds int) error {
	return rawsock.SetLinger(c.FD, seconds)
}

func (c *sock) SetBuffer(bytes int, read bool) error {
	return rawsock.SetBuffer(c.FD, bytes, read)
}

func (c *sock) Raw() (syscall.RawConn, error) { return c.poll() }

// waitReadable waits until there are bytes to read, or the client closes, without a buffer. If
// yields is set, it returns ErrDraining when the server begins to end. The caller holds reading.
func (c *sock) waitReadable(yields bool) error {
	polled := c.polled.Load()
	if (!polled || c.likely) && rawsock.Readable(c.FD) {
		c.likely = true
		return nil
	}
	if !polled {
		if c.letOthers(); rawsock.Readable(c.FD) {
			c.likely = true
			return nil
		}
	}
	for {
		if c.waitStep == nil {
			c.waitStep = c.readyToRead
		}
		c.looked, c.yields, c.wait = false, yields, nil
		err := c.PollRead(c.waitStep)
		switch {
		case err == nil:
			c.likely = c.wait == nil
			return c.wait
		case !c.wasNudged():
			return err
		}
	}
}

// readyToRead is the step function of waitReadable. The poller calls it at once, and again when
// there is something to read.
func (c *sock) readyToRead(fd uintptr) bool {
	if c.looked || rawsock.Readable(int(fd)) {
		return true
	}
	if c.yields && c.group.Draining() { // Nudge may have looked for waiting calls before this one
		c.wait = ErrDraining
		return true
	}
	c.looked = true
	c.waits(&c.readWait)
	return false
}

// Nudge wakes a waiting WaitReadable, so that it notices that the server is ending.
func (c *sock) Nudge() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.file == nil || c.isClosed() {
		return
	}
	c.nudged.Store(true) // before idle is loaded, because NotIdle clears idle first and then loads nudged
	if !c.idle.Load() {
		c.nudged.Store(false)
		return
	}
	_ = c.file.SetReadDeadline(time.Unix(1, 0))
}

// unnudge restores the read deadline if a nudge woke no call. The caller has set idle to false.
func (c *sock) unnudge() {
	if c.nudged.Load() {
		c.wasNudged()
	}
}

// wasNudged reports whether Nudge has moved the read deadline, and restores the deadline.
func (c *sock) wasNudged() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.nudged.Swap(false) || c.isClosed() {
		return false
	}
	t := time.Time{}
	if by := c.readBy.Load(); by != 0 {
		t = time.Unix(0, by)
	}
	return c.file.SetReadDeadline(t) == nil
}

// PeerAddr returns the client's address as the kernel reports it, and ownAddr the address that the
// client connected to.
func (c *sock) PeerAddr() net.Addr { return rawsock.NetAddr(&c.From) }

func (c *sock) ownAddr() net.Addr {
	var raw unix.RawSockaddrAny
	rawsock.Name(c.FD, &raw)
	return rawsock.NetAddr(&raw)
}

// PeerIP returns the client's IP address. For a unix socket it is invalid.
func (c *sock) PeerIP() netip.Addr { return rawsock.AddrPort(&c.From).Addr() }
