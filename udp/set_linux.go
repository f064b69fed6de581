//go:build linux && !haul_portable

package udp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Set holds many sockets and lets one goroutine wait for all of them. It is for a program that
// acts for thousands of clients, each with its own port. The sockets have an epoll of their own,
// because with the epoll of Go's runtime each datagram would wake the goroutine separately. The
// memory for datagrams belongs to the Set, not to the sockets, and no call allocates memory for a
// datagram.
//
// Only one goroutine may call the methods, but any goroutine may call Wake.
type Set struct {
	config  SetConfig
	epoll   int
	wake    int         // an eventfd that ends a Wait
	woken   atomic.Bool // Wake was called, and no Wait has noticed that yet
	cuts    bool        // let the kernel cut messages up; false once it has refused to
	coarse  bool        // the kernel can only wait for whole milliseconds
	events  []unix.EpollEvent
	members []*Member // indexed by descriptor; nil where no member has that descriptor
	ready   []*Member
	name    unix.RawSockaddrInet6 // the address for or from the kernel, in the current call
	nameLen uint32                // the length of name when the kernel writes it
	in      batch                 // memory for a Read with Bulk
	out     batch                 // memory for a Write of a message that the kernel cuts up
	ms      []Message             // the messages that Read returns
}

// maxBulk is the largest number of messages that one Read returns with Bulk. Each has room for 64
// KiB.
const maxBulk = 8

// NewSet returns a Set without members.
func NewSet(c SetConfig) (*Set, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		_ = unix.Close(epoll)
		return nil, os.NewSyscallError("eventfd", err)
	}
	s := &Set{config: c, epoll: epoll, wake: wake, cuts: true}
	s.events = make([]unix.EpollEvent, maxReady)
	s.ready = make([]*Member, 0, maxReady)
	s.ms = make([]Message, 1)
	if c.Bulk {
		s.ms = make([]Message, maxBulk)
	}
	for i := range s.ms {
		s.ms[i].Data = make([]byte, c.datagram())
	}
	if err := s.watch(wake); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

// watch adds a descriptor to the epoll, so that Wait returns when it is readable.
func (s *Set) watch(fd int) error {
	event := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(s.epoll, unix.EPOLL_CTL_ADD, fd, &event))
}

// Close closes the Set and all its members.
func (s *Set) Close() error {
	for _, m := range s.members {
		if m != nil {
			m.Close()
		}
	}
	return errors.Join(unix.Close(s.wake), unix.Close(s.epoll))
}

// Open opens a socket that sends to peer. The kernel assigns its port at the first Write. The error
// wraps syscall.EMFILE if the process has too many open descriptors.
func (s *Set) Open(peer netip.AddrPort) (*Member, error) {
	peer = unmapped(peer)
	family := unix.AF_INET6
	if peer.Addr().Is4() {
		family = unix.AF_INET
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	m := &Member{set: s, fd: fd, peer: peer}
	if err := errors.Join(s.prepare(fd, family), s.watch(fd)); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("open a socket to %v: %w", peer, err)
	}
	for len(s.members) <= fd {
		s.members = append(s.members, nil)
	}
	s.members[fd] = m
	return m, nil
}

// prepare sets the options of a new socket. Without Bulk it leaves the buffers at the system's
// defaults if possible, because every system call counts if a transfer consists of one packet.
func (s *Set) prepare(fd, family int) error {
	level, option := unix.SOL_IP, unix.IP_RECVERR
	if family == unix.AF_INET6 {
		level, option = unix.SOL_IPV6, unix.IPV6_RECVERR
	}
	if err := unix.SetsockoptInt(fd, level, option, 1); err != nil {
		return os.NewSyscallError("setsockopt", err)
	}
	if s.config.Bulk || s.config.Buffer > 0 {
		buffer := Config{Buffer: s.config.Buffer}.buffer()
		setBuffer(fd, unix.SO_RCVBUF, unix.SO_RCVBUFFORCE, buffer)
		setBuffer(fd, unix.SO_SNDBUF, unix.SO_SNDBUFFORCE, buffer)
	}
	if s.config.Bulk {
		// An error does not matter: datagrams then arrive one by one.
		_ = unix.SetsockoptInt(fd, unix.SOL_UDP, unix.UDP_GRO, 1)
	}
	return nil
}

// Wait waits until members have something to read, until deadline has passed (zero means never), or
// until Wake is called. It returns the members that have something to read; the slice is valid
// until the next Wait. The next Wait returns a member again if it still has something to read.
func (s *Set) Wait(deadline time.Time) ([]*Member, error) {
	n, errno := s.poll(deadline)
	if errno != 0 && errno != unix.EINTR {
		return nil, os.NewSyscallError("epoll_wait", errno)
	}
	s.ready = s.ready[:0]
	for i := range s.events[:n] {
		e := &s.events[i]
		if int(e.Fd) == s.wake {
			s.rearm()
			continue
		}
		if m := s.members[e.Fd]; m != nil {
			m.failed = e.Events&unix.EPOLLERR != 0
			s.ready = append(s.ready, m)
		}
	}
	return s.ready, nil
}

// poll waits for events of the epoll, and stores them in s.events.
func (s *Set) poll(deadline time.Time) (n int, errno syscall.Errno) {
	events := uintptr(unsafe.Pointer(unsafe.SliceData(s.events)))
	if !later(deadline) {
		r, _, errno := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(s.epoll), events, maxReady, 0, 0, 0)
		return count(r, errno), errno
	}
	if !s.coarse {
		var wait *unix.Timespec
		if !deadline.IsZero() {
			ts := unix.NsecToTimespec(max(0, int64(time.Until(deadline))))
			wait = &ts
		}
		r, _, errno := syscall.Syscall6(unix.SYS_EPOLL_PWAIT2, uintptr(s.epoll), events, maxReady,
			uintptr(unsafe.Pointer(wait)), 0, 0)
		if errno != unix.ENOSYS && errno != unix.EPERM {
			return count(r, errno), errno
		}
		s.coarse = true // the kernel is older than Linux 5.11, or an old container's filter forbids the call
	}
	milliseconds := -1
	if !deadline.IsZero() {
		milliseconds = int(max(0, min(time.Until(deadline).Milliseconds()+1, 1<<30)))
	}
	r, _, errno := syscall.Syscall6(unix.SYS_EPOLL_PWAIT, uintptr(s.epoll), events, maxReady, uintptr(milliseconds), 0, 0)
	return count(r, errno), errno
}

func count(r uintptr, errno syscall.Errno) int {
	if errno != 0 {
		return 0
	}
	return int(r)
}

// Wake ends the current Wait. If no goroutine waits, it ends the next Wait. Any goroutine may call
// Wake, but not after Close.
func (s *Set) Wake() {
	if s.woken.CompareAndSwap(false, true) {
		one := binary.NativeEndian.AppendUint64(nil, 1)
		_, _ = unix.Write(s.wake, one) // cannot fail, because the counter is 0
	}
}

// rearm resets the eventfd, so that the next Wake has an effect.
func (s *Set) rearm() {
	var b [8]byte
	_, _ = unix.Read(s.wake, b[:])
	s.woken.Store(false)
}

// A Member is one socket of a [Set].
type Member struct {
	// Tag is for the owner to identify the member. The package does not use it.
	Tag int

	set       *Set
	fd        int
	peer      netip.AddrPort
	connected bool
	failed    bool // the socket's queue may hold ICMP errors
}

// Close closes the socket. The member must not be used afterwards.
func (m *Member) Close() {
	if m.fd < 0 {
		return
	}
	m.set.members[m.fd] = nil
	_ = unix.Close(m.fd) // the kernel then removes the socket from the epoll too
	m.fd = -1
}

// Connect makes the socket send only to peer and receive only from peer from now on. The kernel
// answers packets from other hosts with an ICMP error, as if the port were closed.
func (m *Member) Connect(peer netip.AddrPort) error {
	m.peer = unmapped(peer)
	n := m.set.setName(m.peer)
	_, _, errno := syscall.RawSyscall(unix.SYS_CONNECT, uintptr(m.fd), uintptr(unsafe.Pointer(&m.set.name)), n)
	if errno != 0 {
		return os.NewSyscallError("connect", errno)
	}
	m.connected = true
	return nil
}

// SetPeer makes the socket send to peer from now on. It still receives from all peers.
func (m *Member) SetPeer(peer netip.AddrPort) { m.peer = unmapped(peer) }

// setName stores an address in s.name, for the kernel, and returns the length of the stored form.
func (s *Set) setName(peer netip.AddrPort) uintptr {
	binary.BigEndian.PutUint16((*[2]byte)(unsafe.Pointer(&s.name.Port))[:], peer.Port())
	if peer.Addr().Is4() {
		v4 := (*unix.RawSockaddrInet4)(unsafe.Pointer(&s.name))
		v4.Family, v4.Addr = unix.AF_INET, peer.Addr().As4()
		return unix.SizeofSockaddrInet4
	}
	s.name.Family, s.name.Flowinfo = unix.AF_INET6, 0
	s.name.Addr = peer.Addr().As16()
	s.name.Scope_id = zones.index(peer.Addr().Zone())
	return unix.SizeofSockaddrInet6
}

// peerName returns the address that the kernel has stored in s.name.
func (s *Set) peerName() netip.AddrPort {
	port := binary.BigEndian.Uint16((*[2]byte)(unsafe.Pointer(&s.name.Port))[:])
	if s.name.Family == unix.AF_INET {
		v4 := (*unix.RawSockaddrInet4)(unsafe.Pointer(&s.name))
		return netip.AddrPortFrom(netip.AddrFrom4(v4.Addr), port)
	}
	return netip.AddrPortFrom(fromKernel(s.name.Addr, s.name.Scope_id), port)
}

// Read returns the messages that have arrived, without waiting; there may be no messages. They are
// valid until the next Read of any member. The error wraps a syscall.Errno. If a host has reported
// that the port is closed, the error is ECONNREFUSED in a *net.OpError, whose Addr is the
// destination of the refused datagram. Read returns such errors after all received messages, one in
// each call.
func (m *Member) Read() ([]Message, error) {
	n, errno := m.receive()
	if failed(errno) {
		m.failed = true // datagrams may have been received too, so try again
		n, errno = m.receive()
	}
	if errno == 0 {
		return m.set.ms[:n], nil
	}
	if m.failed {
		if err := m.refused(); err != nil {
			return nil, err
		}
	}
	if !failed(errno) {
		return nil, nil
	}
	return nil, transient(errno)
}

// failed reports whether errno is a real failure. An ICMP error about an earlier datagram makes the
// next call fail, whichever that is, but only one call. The error also stays in the socket's queue
// until refused takes it from there, and until then Wait returns the member.
func failed(errno syscall.Errno) bool {
	return errno != 0 && errno != unix.EAGAIN && errno != unix.EINTR
}

// receive reads one message, or with Bulk at most maxBulk messages.
func (m *Member) receive() (int, syscall.Errno) {
	if m.set.config.Bulk {
		return m.readMany()
	}
	return m.readOne()
}

// transient returns nil for an error that has no other effect than a lost datagram. It returns
// other errors unchanged.
func transient(errno syscall.Errno) error {
	switch errno {
	case unix.EHOSTUNREACH, unix.ENETUNREACH, unix.EMSGSIZE, unix.EPROTO, unix.ENOBUFS, unix.ENOMEM:
		return nil // reports of problems that may be over soon, or a temporary lack of memory
	}
	return errno
}

// refused takes errors from the queue of ICMP errors until it finds a refusal, and returns that. It
// returns nil if the queue is empty. If more errors are left, the next Wait returns the member
// again.
func (m *Member) refused() error {
	control := make([]byte, 256)
	for {
		refusal, more := nextError(uintptr(m.fd), control)
		if refusal != nil {
			return refusal
		}
		if !more {
			m.failed = false
			return nil
		}
	}
}

func (m *Member) readOne() (int, syscall.Errno) {
	s := m.set
	msg := &s.ms[0]
	msg.Data = msg.Data[:cap(msg.Data)]
	var name, size uintptr
	if !m.connected {
		s.nameLen = unix.SizeofSockaddrInet6
		name, size = uintptr(unsafe.Pointer(&s.name)), uintptr(unsafe.Pointer(&s.nameLen))
	}
	n, _, errno := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(m.fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(msg.Data))), uintptr(len(msg.Data)), unix.MSG_DONTWAIT, name, size)
	if errno != 0 {
		return 0, errno
	}
	msg.Data, msg.Segment, msg.Peer = msg.Data[:n], 0, m.peer
	if !m.connected {
		msg.Peer = s.peerName()
	}
	return 1, 0
}

func (m *Member) readMany() (int, syscall.Errno) {
	s := m.set
	s.in.grow(len(s.ms))
	for i := range s.ms {
		s.in.setData(i, s.ms[i].Data[:cap(s.ms[i].Data)])
		s.in.reset(i)
	}
	n, errno := receiveBatch(uintptr(m.fd), s.in.headers[:len(s.ms)])
	for i := range n {
		msg := &s.ms[i]
		msg.Data = msg.Data[:s.in.headers[i].length]
		msg.Peer = s.in.peer(i)
		if _, msg.Segment, _ = parseControl(s.in.controls[i][:s.in.headers[i].Controllen]); msg.Segment >= len(msg.Data) {
			msg.Segment = 0
		}
	}
	return n, errno
}

// Write sends one datagram. If segment is above 0, it sends b as datagrams of that many bytes, of
// which the last may be shorter. If the kernel has no room for a datagram, the datagram is lost
// without an error, just as the network may lose it. But the first Write of a member returns EAGAIN
// if the system has no free port for it. The error is a syscall.Errno, and never an ICMP error
// about an earlier datagram: Read returns those.
func (m *Member) Write(b []byte, segment int) error {
	for segment > 0 && len(b) > segment {
		n, errno := m.writeCut(b, segment)
		if errno != 0 {
			return m.explain(errno)
		}
		b = b[n:]
		if len(b) == 0 {
			return nil
		}
	}
	return m.explain(m.writeOne(b))
}

// explain returns the error for the caller of Write, which is nil if only a datagram was lost.
func (m *Member) explain(errno syscall.Errno) error {
	switch errno {
	case 0:
		return nil
	case unix.EAGAIN:
		if m.connected {
			return nil
		}
		return errno
	}
	return transient(errno)
}

func (m *Member) writeOne(b []byte) syscall.Errno {
	errno := m.send(b)
	if failed(errno) {
		errno = m.send(b)
	}
	return errno
}

func (m *Member) send(b []byte) syscall.Errno {
	var name, size uintptr
	if !m.connected {
		size = m.set.setName(m.peer)
		name = uintptr(unsafe.Pointer(&m.set.name))
	}
	_, _, errno := syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(m.fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, name, size)
	return errno
}

// writeCut sends segments from the beginning of b, at most as many as fit into one call, and
// returns the number of bytes sent. If the kernel cannot cut b up, writeCut sends only the first
// segment.
func (m *Member) writeCut(b []byte, segment int) (int, syscall.Errno) {
	s := m.set
	whole := min(maxSegments, maxPayload/segment)
	if !s.cuts || whole <= 1 {
		return segment, m.writeOne(b[:segment])
	}
	n := min(len(b), whole*segment)
	s.out.grow(1)
	s.out.setData(0, b[:n])
	h := &s.out.headers[0]
	h.Namelen = 0
	if !m.connected {
		s.out.setPeer(0, m.peer, m.peer.Addr().Is6())
	}
	s.out.setControl(0, netip.Addr{}, segment, false)
	_, errno := sendBatch(uintptr(m.fd), s.out.headers[:1])
	if failed(errno) {
		_, errno = sendBatch(uintptr(m.fd), s.out.headers[:1])
	}
	switch errno {
	case unix.EIO, unix.EINVAL, unix.EMSGSIZE, unix.EOPNOTSUPP:
		// The device does not compute checksums, a segment is larger than the path's MTU, or the
		// kernel is too old. All members use the same path, so do not try again.
		s.cuts = false
		return segment, m.writeOne(b[:segment])
	}
	return n, errno
}
