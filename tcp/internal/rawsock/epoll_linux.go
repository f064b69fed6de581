//go:build linux && !haul_portable

package rawsock

import (
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// MaxEvents is the largest number of events that are taken from an epoll at a time.
const MaxEvents = 256

// An Epoll is an epoll instance. A goroutine waits for it in Go's poller, so it occupies no thread
// meanwhile.
type Epoll struct {
	events [MaxEvents]unix.EpollEvent
	n      int // number of events that the last Look has taken

	fd   int
	file *os.File
	raw  syscall.RawConn
	step func(fd uintptr) (done bool)
}

// NewEpoll opens an epoll that Go's poller can wait for.
func NewEpoll() (*Epoll, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	_ = unix.SetNonblock(fd, true) // os.NewFile registers only non-blocking descriptors with the poller
	e := &Epoll{fd: fd, file: os.NewFile(uintptr(fd), "epoll")}
	e.step = func(uintptr) bool { return e.Look() > 0 }
	if e.raw, err = e.file.SyscallConn(); err != nil {
		_ = e.Close()
		return nil, err
	}
	return e, nil
}

// Control adds a descriptor, with its events and the key that identifies it, or removes a
// descriptor.
func (e *Epoll) Control(op, fd int, events, key uint32) error {
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(e.fd, op, fd, &unix.EpollEvent{Events: events, Fd: int32(key)}))
}

// Look takes the events that have happened, and returns their number, without waiting.
// [Epoll.Event] returns each of them until the next Look.
func (e *Epoll) Look() int {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(e.fd), uintptr(unsafe.Pointer(&e.events)), MaxEvents, 0, 0, 0)
	if e.n = int(n); errno != 0 { // the call was interrupted
		e.n = 0
	}
	return e.n
}

// Event returns event i of the last Look, and the key of its descriptor.
func (e *Epoll) Event(i int) (events, key uint32) { return e.events[i].Events, uint32(e.events[i].Fd) }

// Wait waits for events, takes them, and returns their number. It returns 0 when Wake is called or
// was called since the last Wait.
func (e *Epoll) Wait() int {
	if e.raw.Read(e.step) != nil {
		e.n = 0
		_ = e.file.SetReadDeadline(time.Time{})
	}
	return e.n
}

// Wake makes Wait return. Any goroutine may call it, even after Close.
func (e *Epoll) Wake() { _ = e.file.SetReadDeadline(time.Unix(1, 0)) }

// Close closes the epoll.
func (e *Epoll) Close() error { return e.file.Close() }
