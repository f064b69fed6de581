//go:build linux && !haul_portable

package udp

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// An ownPoll is a socket with its own epoll, in which its reader waits. It implements
// [Config.Busy]. It takes the place of package net's poller, and therefore implements
// syscall.RawConn and deadlines.
//
// With package net's poller, each wait parks the goroutine and makes the scheduler look for other
// work. That takes three system calls and a few locks: a tenth of the cost of a packet when each
// packet is answered before the next one is sent (docs/decisions/001). With an ownPoll, a wait is
// one call of epoll_pwait. The call has no time limit, because on a virtual machine setting and
// cancelling a timer for each wait costs as much as the wait itself. Instead, the deadline is a
// timerfd, which stays set from one wait to the next.
type ownPoll struct {
	fd, epoll    int
	event, timer int // event is an eventfd that ends a wait, and timer is a timerfd for the read deadline

	readBy  atomic.Int64       // the read deadline, encoded by the method instant
	writeBy atomic.Int64       // the write deadline, encoded in the same way
	base    time.Time          // the time from which the deadlines count
	waiting atomic.Bool        // the reader waits, or is about to
	ticking atomic.Bool        // the timerfd is set
	events  [4]unix.EpollEvent // memory for epoll_pwait; only the reader uses it

	// mu guards the descriptors: it is held for reading while one is in use, and for writing to
	// close them.
	mu     sync.RWMutex
	closed atomic.Bool
}

// A deadline is encoded as a number of nanoseconds since base, except for these two values.
const (
	never int64 = 0 // there is no deadline
	past  int64 = 1 // the deadline has passed
)

// takeOver returns an ownPoll with a duplicate of the socket's descriptor, and closes socket.
func takeOver(socket *net.UDPConn) (*ownPoll, error) {
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil, err
	}
	p := &ownPoll{fd: -1, epoll: -1, event: -1, timer: -1, base: time.Now()}
	if e := raw.Control(func(fd uintptr) { err = p.open(int(fd)) }); e != nil {
		err = e
	}
	if err != nil {
		p.release()
		return nil, fmt.Errorf("wait for a socket in an epoll: %w", err)
	}
	// Go's network poller watches the original descriptor while it is open, so close it.
	if err := socket.Close(); err != nil {
		p.release()
		return nil, err
	}
	return p, nil
}

// open opens the descriptors of p. One of them is a duplicate of the socket fd.
func (p *ownPoll) open(fd int) (err error) {
	if p.fd, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0); err != nil {
		return err
	}
	if p.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return err
	}
	if p.event, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return err
	}
	if p.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK); err != nil {
		return err
	}
	for _, fd := range []int{p.fd, p.event, p.timer} {
		if err := unix.EpollCtl(p.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}); err != nil {
			return err
		}
	}
	return nil
}

func (p *ownPoll) release() {
	for _, fd := range []int{p.fd, p.epoll, p.event, p.timer} {
		if fd >= 0 {
			_ = unix.Close(fd) // the error is ignored, because no written data can be lost
		}
	}
}

// Read calls f until f returns true, and waits for data before each further call. Only one
// goroutine at a time may call Read.
func (p *ownPoll) Read(f func(fd uintptr) bool) error {
	return p.use(f, p.wait)
}

// Write calls f until f returns true, and waits for room to send before each further call.
func (p *ownPoll) Write(f func(fd uintptr) bool) error {
	return p.use(f, p.waitForRoom)
}

// Control calls f once.
func (p *ownPoll) Control(f func(fd uintptr)) error {
	return p.use(func(fd uintptr) bool { f(fd); return true }, nil)
}

// use calls f until f returns true. Each time f returns false, use calls wait with the number of
// times that f has returned false so far.
func (p *ownPoll) use(f func(fd uintptr) bool, wait func(failed int) error) error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	for failed := 1; ; failed++ {
		if p.closed.Load() {
			return net.ErrClosed
		}
		if f(uintptr(p.fd)) {
			return nil
		}
		if err := wait(failed); err != nil {
			return err
		}
	}
}

// wait returns when the socket is ready, when the deadline has changed, when p is closed, and
// sometimes for no reason.
func (p *ownPoll) wait(int) error {
	p.waiting.Store(true)
	defer p.waiting.Store(false)
	if p.readBy.Load() == past {
		return os.ErrDeadlineExceeded
	}
	if p.closed.Load() {
		return nil // the caller checks closed again, and returns the error
	}
	n, err := unix.EpollWait(p.epoll, p.events[:], -1)
	if err != nil && err != unix.EINTR {
		return fmt.Errorf("wait for datagrams: %w", err)
	}
	for _, e := range p.events[:max(n, 0)] {
		switch int(e.Fd) {
		case p.event:
			var count [8]byte
			_, _ = unix.Read(p.event, count[:]) // resets the counter; an error would mean that it is already 0
		case p.timer:
			return os.ErrDeadlineExceeded // every later wait returns this error too, until another deadline is set
		}
	}
	return nil
}

// waitForRoom returns when the kernel may accept a datagram. The kernel may report room and still
// accept nothing, so before each further attempt waitForRoom sleeps longer, rather than asking the
// kernel continually.
func (p *ownPoll) waitForRoom(failed int) error {
	left := maxStall
	if by := p.writeBy.Load(); by != never {
		left = time.Duration(by) - time.Since(p.base)
	}
	if left <= 0 {
		return os.ErrDeadlineExceeded
	}
	if failed > 1 {
		time.Sleep(min(left, time.Millisecond<<min(failed-2, 6)))
	}
	t := unix.NsecToTimespec(int64(left))
	_, err := unix.Ppoll([]unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLOUT}}, &t, nil)
	if err != nil && !errors.Is(err, unix.EINTR) {
		return fmt.Errorf("wait for room to send: %w", err)
	}
	return nil
}

// SetReadDeadline sets the read deadline. It also applies to a wait that has already begun.
func (p *ownPoll) SetReadDeadline(t time.Time) error {
	at := p.instant(t)
	p.readBy.Store(at)
	if at == past && !p.waiting.Load() {
		return nil // the reader will check readBy before it waits
	}
	// Calls of other methods share the lock, so TryRLock fails only if Close holds the lock or
	// waits for it.
	if !p.mu.TryRLock() {
		return net.ErrClosed
	}
	defer p.mu.RUnlock()
	if p.closed.Load() {
		return net.ErrClosed
	}
	if at == past {
		p.interrupt()
		return nil
	}
	return p.setTimer(t)
}

// setTimer sets the timerfd to expire at t, or stops it if t is zero.
func (p *ownPoll) setTimer(t time.Time) error {
	var spec unix.ItimerSpec
	if !t.IsZero() {
		spec.Value = unix.NsecToTimespec(max(int64(time.Until(t)), 1))
	} else if !p.ticking.Load() {
		return nil
	}
	p.ticking.Store(!t.IsZero())
	return unix.TimerfdSettime(p.timer, 0, &spec, nil)
}

// SetWriteDeadline sets the write deadline. It applies only to waits that begin from now on.
func (p *ownPoll) SetWriteDeadline(t time.Time) error {
	p.writeBy.Store(p.instant(t))
	return nil
}

// instant encodes a deadline as a number: see the constants never and past.
func (p *ownPoll) instant(t time.Time) int64 {
	if t.IsZero() {
		return never
	}
	return max(int64(t.Sub(p.base)), past)
}

// interrupt makes a waiting reader return. The caller holds mu.
func (p *ownPoll) interrupt() {
	one := [8]byte{1} // any number but 0 works, so the byte order does not matter
	// This fails only if the counter is full, and a full counter wakes the reader too.
	_, _ = unix.Write(p.event, one[:])
}

// Close interrupts the reader, waits until no call uses the socket, and closes it.
func (p *ownPoll) Close() error {
	p.mu.RLock()
	was := p.closed.Swap(true)
	if !was {
		p.interrupt()
	}
	p.mu.RUnlock()
	if was {
		return net.ErrClosed
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.release()
	return nil
}
