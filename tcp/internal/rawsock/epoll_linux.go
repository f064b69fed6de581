//go:build linux && !haul_portable

package rawsock

import (
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// MaxEvents is how many events are taken from an epoll at once.
const MaxEvents = 256

// An Epoll is an epoll whose goroutine waits for it in Go's poller, so it holds no thread while it
// is idle.
type Epoll struct {
	events [MaxEvents]unix.EpollEvent
	n      int // number of events

	fd   int
	file *os.File
	raw  syscall.RawConn
	step func(fd uintptr) (done bool)
}

// NewEpoll opens an epoll.
func NewEpoll() (*Epoll, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	_ = unix.SetNonblock(fd, true) // os.NewFile then gives it to the poller
	e := &Epoll{fd: fd, file: os.NewFile(uintptr(fd), "epoll")}
	e.step = func(uintptr) bool { return e.Look() > 0 }
	if e.raw, err = e.file.SyscallConn(); err != nil {
		_ = e.Close()
		return nil, err
	}
	return e, nil
}

// Control adds a descriptor with its events and the key that identifies it, or removes a
// descriptor.
func (e *Epoll) Control(op, fd int, events, key uint32) error {
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(e.fd, op, fd, &unix.EpollEvent{Events: events, Fd: int32(key)}))
}

// Look takes the available events, and returns their number. [Epoll.Event] returns them until the
// next call.
func (e *Epoll) Look() int {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(e.fd), uintptr(unsafe.Pointer(&e.events)), MaxEvents, 0, 0, 0)
	if e.n = int(n); errno != 0 { // interrupted
		e.n = 0
	}
	return e.n
}

// Event returns event i, and the key of its descriptor.
func (e *Epoll) Event(i int) (events, key uint32) { return e.events[i].Events, uint32(e.events[i].Fd) }

// Wait waits for events, and takes them. It returns 0 after Wake, even if Wake was called before
// Wait.
func (e *Epoll) Wait() int {
	if e.raw.Read(e.step) != nil {
		e.n = 0
		_ = e.file.SetReadDeadline(time.Time{})
	}
	return e.n
}

// Wake ends a Wait. Any goroutine may call it, even after Close.
func (e *Epoll) Wake() { _ = e.file.SetReadDeadline(time.Unix(1, 0)) }

// Close closes the epoll.
func (e *Epoll) Close() error { return e.file.Close() }
