//go:build linux && !haul_portable

package tcp

import (
	"cmp"
	"context"
	"errors"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/haul-project/haul/tcp/internal/conns"
	"github.com/haul-project/haul/tcp/internal/rawsock"
)

// A kernel is one listening socket. Only one goroutine at a time may call accept, and that
// goroutine also calls close.
type kernel struct {
	file *os.File
	raw  syscall.RawConn
	fd   int
	unix bool

	// shared means that another process may have the same socket open, because the socket was handed
	// over to this process.
	shared bool
	// acceptUntil is the time until which accept still accepts after stop; written before stopped
	// is set.
	acceptUntil time.Time
	stopped     atomic.Bool            // accept must return net.ErrClosed soon
	handed      atomic.Bool            // duplicate handed the socket to another process, which accepts too
	wakeLoop    atomic.Pointer[func()] // makes a loop notice that the socket is stopped; nil without a loop

	got   int // the descriptor of the connection that step has accepted
	errno syscall.Errno
	from  *unix.RawSockaddrAny
	step  func(fd uintptr) (done bool)
}

// maxOwnSockets is the largest default of [Options.Sockets]. With more sockets, the kernel spreads
// the connections less evenly.
const maxOwnSockets = 16

// listen opens the sockets of an address, and returns the address with its actual port.
func listen(ctx context.Context, network, addr string, o Options) (kernels []*kernel, at net.Addr, err error) {
	n := o.Sockets
	if n == 0 {
		n = min(runtime.GOMAXPROCS(0), maxOwnSockets)
	}
	if network != "tcp" {
		n = 1
	}
	ls, err := rawsock.Listen(ctx, network, addr, n)
	if err != nil {
		return nil, nil, conns.Unnamed(err)
	}
	at = ls[0].Addr()
	for _, l := range ls {
		k, failed := newKernel(l, o)
		if failed == nil {
			kernels = append(kernels, k)
		}
		err = cmp.Or(err, failed)
	}
	if err != nil {
		for _, k := range kernels {
			_ = k.close()
		}
		return nil, nil, conns.Unnamed(err)
	}
	return kernels, at, nil
}

// newKernel makes a kernel of a duplicate of l's descriptor, and closes l.
func newKernel(l net.Listener, o Options) (*kernel, error) {
	var f *os.File
	var err error
	isUnix := false
	switch l := l.(type) {
	case *net.TCPListener:
		f, err = l.File()
	case *net.UnixListener:
		isUnix = true
		l.SetUnlinkOnClose(false)
		f, err = l.File()
	default:
		err = errors.ErrUnsupported
	}
	_ = l.Close()
	if err != nil {
		return nil, err
	}
	k := &kernel{file: f, unix: isUnix}
	if k.raw, err = f.SyscallConn(); err == nil {
		if e := k.raw.Control(func(fd uintptr) {
			k.fd = int(fd)
			err = k.set(o)
		}); e != nil {
			err = e
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	k.step = func(fd uintptr) bool {
		k.got, k.errno = rawsock.Accept(int(fd), k.from)
		return k.errno != unix.EAGAIN
	}
	return k, nil
}

// set sets the options on the listening socket. The accepted connections inherit the options, which
// saves system calls for each connection.
func (k *kernel) set(o Options) error {
	set := func(level, name, value int) error {
		return os.NewSyscallError("setsockopt", unix.SetsockoptInt(k.fd, level, name, value))
	}
	var errs []error
	if err := unix.SetNonblock(k.fd, true); err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	if o.Backlog > 0 { // a second listen(2) changes the backlog
		errs = append(errs, os.NewSyscallError("listen", unix.Listen(k.fd, o.Backlog)))
	}
	if o.SendBuffer > 0 {
		errs = append(errs, set(unix.SOL_SOCKET, unix.SO_SNDBUF, o.SendBuffer))
	}
	if k.unix {
		return errors.Join(errs...)
	}
	keepAlive := o.keepAlive()
	errs = append(errs, set(unix.IPPROTO_TCP, unix.TCP_NODELAY, rawsock.Bool(!o.Nagle)), set(unix.SOL_SOCKET, unix.SO_KEEPALIVE, rawsock.Bool(keepAlive.Enable)))
	if keepAlive.Enable {
		errs = append(errs,
			set(unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, rawsock.WholeSeconds(keepAlive.Idle)),
			set(unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, rawsock.WholeSeconds(keepAlive.Interval)),
			set(unix.IPPROTO_TCP, unix.TCP_KEEPCNT, keepAlive.Count))
	}
	if o.ClientFirst > 0 {
		errs = append(errs, set(unix.IPPROTO_TCP, unix.TCP_DEFER_ACCEPT, rawsock.WholeSeconds(o.ClientFirst)))
	}
	if o.FastOpen > 0 {
		// The option only saves a round trip, so an error does not matter.
		_ = set(unix.IPPROTO_TCP, unix.TCP_FASTOPEN, o.FastOpen)
	}
	if o.Congestion != "" {
		if has, err := rawsock.SetCongestion(k.fd, o.Congestion); err != nil {
			errs = append(errs, &CongestionError{Name: o.Congestion, Has: has, Err: err})
		}
	}
	return errors.Join(errs...)
}

// CanChooseCongestion reports whether programs can choose the congestion control on this system.
const CanChooseCongestion = true

// accept waits for a connection and puts it into c. It returns net.ErrClosed once the socket is
// stopped and its queue is empty.
func (k *kernel) accept(c *conns.Conn) error {
	for {
		fd, errno := rawsock.Accept(k.fd, &c.From)
		if errno == unix.EAGAIN {
			if k.stopped.Load() && !time.Now().Before(k.acceptUntil) {
				return net.ErrClosed
			}
			k.from = &c.From
			err := k.raw.Read(k.step)
			k.from = nil
			if errors.Is(err, os.ErrDeadlineExceeded) {
				continue // stop was called, or acceptUntil has passed: look at the queue once more
			}
			if err != nil {
				return err
			}
			fd, errno = k.got, k.errno
		}
		if errno != 0 {
			return os.NewSyscallError("accept4", errno)
		}
		c.FD = fd
		c.Reset()
		return nil
	}
}

// lateTime is how long a busy socket still accepts after stop, for TCP handshakes under way. The
// kernel has already answered their clients.
const lateTime = 50 * time.Millisecond

// stop makes accept end soon. Clients that are already connected are still accepted. The kernel
// must not connect new clients only to reset them when the socket closes, so it drops their SYN
// packets. They try again, and then find the port closed, or another server. If the socket was
// handed to another process, that process accepts all of these clients.
func (k *kernel) stop(busy bool) {
	until := time.Unix(1, 0)
	if !k.unix && !k.handed.Load() {
		rawsock.DropSYN(k.raw) // on failure, a few clients may be reset
		if busy {
			until = time.Now().Add(lateTime)
		}
	}
	k.acceptUntil = until
	k.stopped.Store(true)
	_ = k.file.SetReadDeadline(until)
	if wake := k.wakeLoop.Load(); wake != nil {
		(*wake)()
	}
}

// descriptor returns the descriptor of the socket, for a loop's epoll.
func (k *kernel) descriptor() int { return k.fd }

// onStop sets the function that stop calls.
func (k *kernel) onStop(wake func()) { k.wakeLoop.Store(&wake) }

// isStopped reports whether the socket is stopped, and until when it still accepts.
func (k *kernel) isStopped() (bool, time.Time) {
	if !k.stopped.Load() {
		return false, time.Time{}
	}
	return true, k.acceptUntil
}

// share records that other processes may have the socket open too. It also removes the filter of
// rawsock.DropSYN. The previous process may have set that filter when it stopped the socket, and may
// have been killed before it could remove the filter.
func (k *kernel) share() {
	k.shared = true
	rawsock.TakeSYN(k.raw)
}

// close closes the socket. If other processes may have it open too, it first removes the filter
// that stop has set.
func (k *kernel) close() error {
	if k.shared {
		rawsock.TakeSYN(k.raw)
	}
	return k.file.Close()
}

// duplicate returns a duplicate of the socket, for another process.
func (k *kernel) duplicate() (*os.File, error) {
	f, err := rawsock.Duplicate(k.raw)
	if err == nil {
		k.handed.Store(true)
	}
	return f, err
}
