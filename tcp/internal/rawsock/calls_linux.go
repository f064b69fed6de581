//go:build linux && !haul_portable

package rawsock

import (
	"bytes"
	"net"
	"net/netip"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// These are the system calls of the fast path. The sockets are non-blocking, so no call waits. Each
// is a raw system call, of which Go's scheduler is not notified: a raw call costs only two thirds of
// a normal one, and lets the runtime's monitor sleep.

// Recv receives the bytes that are available, at most len(b). If no bytes are available, it returns
// EAGAIN.
func Recv(fd int, b []byte, flags int) (int, syscall.Errno) {
	return move(unix.SYS_RECVFROM, fd, b, flags)
}

// Readable reports whether a receive would return at once, with bytes, the end of the stream or an
// error.
func Readable(fd int) bool {
	var b [1]byte
	_, errno := Recv(fd, b[:], unix.MSG_PEEK)
	return errno != unix.EAGAIN
}

// Send sends as many bytes as the send buffer has room for. If there is no room, it returns EAGAIN.
func Send(fd int, b []byte, flags int) (int, syscall.Errno) {
	return move(unix.SYS_SENDTO, fd, b, flags)
}

func move(call uintptr, fd int, b []byte, flags int) (int, syscall.Errno) {
	for {
		n, _, errno := unix.RawSyscall6(call, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), uintptr(flags), 0, 0)
		switch errno {
		case 0:
			return int(n), 0
		case unix.EINTR:
		default:
			return 0, errno
		}
	}
}

// Accept takes a connection from the queue, and stores the peer's address in from. If the queue is
// empty, it returns EAGAIN.
func Accept(fd int, from *unix.RawSockaddrAny) (int, syscall.Errno) {
	for {
		size := uint32(unix.SizeofSockaddrAny)
		from.Addr.Family = unix.AF_UNSPEC
		c, _, errno := unix.RawSyscall6(unix.SYS_ACCEPT4, uintptr(fd), uintptr(unsafe.Pointer(from)), uintptr(unsafe.Pointer(&size)),
			unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0, 0)
		switch errno {
		case 0:
			return int(c), 0
		case unix.EINTR:
		default:
			return -1, errno
		}
	}
}

// Close closes a descriptor. The result is ignored: Linux closes the descriptor even if it returns
// EINTR.
func Close(fd int) { _, _, _ = unix.RawSyscall(unix.SYS_CLOSE, uintptr(fd), 0, 0) }

// Duplicate duplicates the descriptor of a connection or listener, and returns it as a file.
func Duplicate(c syscall.RawConn) (*os.File, error) {
	var fd int
	var err error
	if e := c.Control(func(own uintptr) { fd, err = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 0) }); e != nil {
		return nil, e
	}
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fd), "socket"), nil
}

// Name stores the address that a socket is bound to in `at`.
func Name(fd int, at *unix.RawSockaddrAny) {
	size := uint32(unix.SizeofSockaddrAny)
	_, _, _ = unix.RawSyscall(unix.SYS_GETSOCKNAME, uintptr(fd), uintptr(unsafe.Pointer(at)), uintptr(unsafe.Pointer(&size)))
}

// AddrPort converts a sockaddr. The result is invalid for a unix socket.
func AddrPort(raw *unix.RawSockaddrAny) netip.AddrPort {
	port := func(p *uint16) uint16 { // p is in network byte order
		b := (*[2]byte)(unsafe.Pointer(p))
		return uint16(b[0])<<8 | uint16(b[1])
	}
	switch raw.Addr.Family {
	case unix.AF_INET:
		a := (*unix.RawSockaddrInet4)(unsafe.Pointer(raw))
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), port(&a.Port))
	case unix.AF_INET6:
		a := (*unix.RawSockaddrInet6)(unsafe.Pointer(raw))
		at := netip.AddrFrom16(a.Addr).Unmap()
		if a.Scope_id != 0 && at.Is6() {
			if i, err := net.InterfaceByIndex(int(a.Scope_id)); err == nil {
				at = at.WithZone(i.Name)
			}
		}
		return netip.AddrPortFrom(at, port(&a.Port))
	}
	return netip.AddrPort{}
}

// NetAddr converts a sockaddr to an address of package net.
func NetAddr(raw *unix.RawSockaddrAny) net.Addr {
	if a := AddrPort(raw); a.IsValid() {
		return net.TCPAddrFromAddrPort(a)
	}
	path := (*unix.RawSockaddrUnix)(unsafe.Pointer(raw)).Path
	b := unsafe.Slice((*byte)(unsafe.Pointer(&path[0])), len(path))
	name := ""
	switch {
	case raw.Addr.Family != unix.AF_UNIX:
	case b[0] == 0 && b[1] != 0: // an abstract name
		name = "@" + string(bytes.TrimRight(b[1:], "\x00"))
	default:
		b, _, _ = bytes.Cut(b, []byte{0})
		name = string(b)
	}
	return &net.UnixAddr{Net: "unix", Name: name}
}
