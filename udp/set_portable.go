//go:build !linux || haul_portable

package udp

import (
	"context"
	"net/netip"
	"sync"
	"time"
)

// A Set holds many sockets and lets one goroutine wait for all of them. It is for a program that
// acts for thousands of clients, each with its own port. On the portable path, each socket also has
// a goroutine that receives its datagrams.
//
// Only one goroutine may call the methods, but any goroutine may call Wake.
type Set struct {
	config   SetConfig
	arrivals chan arrival
	wake     chan struct{}
	memory   sync.Pool // holds *[]byte, each with room for one datagram
	readers  sync.WaitGroup
	timer    *time.Timer
	members  map[*Member]struct{}
	ready    []*Member
	lent     []*[]byte // memory of the messages that the last Wait has delivered
}

// maxArrivals is how many received datagrams are queued for Wait. If the queue is full, the
// receiving goroutines block.
const maxArrivals = 256

// An arrival is a received datagram, or the error that has stopped a member's receiving goroutine.
type arrival struct {
	member *Member
	peer   netip.AddrPort
	memory *[]byte
	length int
	err    error
}

// NewSet returns a Set without members.
func NewSet(c SetConfig) (*Set, error) {
	s := &Set{
		config:   c,
		arrivals: make(chan arrival, maxArrivals),
		wake:     make(chan struct{}, 1),
		timer:    time.NewTimer(time.Hour),
		members:  make(map[*Member]struct{}),
	}
	s.memory.New = func() any {
		b := make([]byte, c.datagram())
		return &b
	}
	return s, nil
}

// Close closes the Set and all its members, and waits until their goroutines have stopped.
func (s *Set) Close() error {
	for m := range s.members {
		m.Close()
	}
	s.timer.Stop()
	s.readers.Wait()
	return nil
}

// Open opens a socket that sends to peer. The error wraps syscall.EMFILE if the process has too
// many open descriptors.
func (s *Set) Open(peer netip.AddrPort) (*Member, error) {
	peer = unmapped(peer)
	from := netip.IPv6Unspecified()
	if peer.Addr().Is4() {
		from = netip.IPv4Unspecified()
	}
	conn, err := Listen(context.Background(), netip.AddrPortFrom(from, 0), Config{Buffer: s.config.Buffer})
	if err != nil {
		return nil, err
	}
	m := &Member{set: s, conn: conn, peer: peer, closed: make(chan struct{})}
	s.members[m] = struct{}{}
	s.readers.Go(m.read)
	return m, nil
}

// Wait waits until members have something to read, until deadline has passed (zero means never), or
// until Wake is called. It returns the members that have something to read; the slice is valid
// until the next Wait.
func (s *Set) Wait(deadline time.Time) ([]*Member, error) {
	s.reclaim()
	if later(deadline) {
		var over <-chan time.Time // nil without a deadline, and then never ready
		if !deadline.IsZero() {
			s.timer.Reset(time.Until(deadline))
			over = s.timer.C
		}
		select {
		case a := <-s.arrivals:
			s.take(a)
		case <-s.wake:
		case <-over:
		}
	}
	for range maxReady {
		select {
		case a := <-s.arrivals:
			s.take(a)
			continue
		default:
		}
		break
	}
	return s.ready, nil
}

// reclaim takes back the memory of the messages that the previous Wait delivered.
func (s *Set) reclaim() {
	for _, b := range s.lent {
		s.memory.Put(b)
	}
	for _, m := range s.ready {
		m.ms, m.taken, m.err = m.ms[:0], 0, nil
	}
	s.lent, s.ready = s.lent[:0], s.ready[:0]
}

// take adds an arrival to its member, and the member to the result of Wait. It drops datagrams of
// closed members, and those that a connected member must not receive.
func (s *Set) take(a arrival) {
	m := a.member
	if a.memory != nil {
		s.lent = append(s.lent, a.memory)
	}
	if _, ok := s.members[m]; !ok || m.connected && a.memory != nil && a.peer != m.peer {
		return
	}
	if len(m.ms) == 0 && m.err == nil {
		s.ready = append(s.ready, m)
	}
	if a.err != nil {
		m.err = a.err
		return
	}
	m.ms = append(m.ms, Message{Peer: a.peer, Data: (*a.memory)[:a.length]})
}

// Wake ends the current Wait. If no goroutine waits, it ends the next Wait. Any goroutine may call
// Wake.
func (s *Set) Wake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// A Member is one socket of a [Set].
type Member struct {
	// Tag is for the owner to identify the member. The package does not use it.
	Tag int

	set       *Set
	conn      *Conn
	peer      netip.AddrPort
	connected bool
	closed    chan struct{}
	ms        []Message // the messages that the last Wait has delivered
	taken     int       // number of messages in ms that Read has returned
	err       error
	out       [1]Message
}

// read receives datagrams and passes them to Wait, until the socket is closed or fails.
func (m *Member) read() {
	for {
		memory := m.set.memory.Get().(*[]byte)
		in := [1]Message{{Data: *memory}}
		n, err := m.conn.Read(in[:], time.Time{})
		a := arrival{member: m, err: err}
		if err == nil && n == 0 {
			m.set.memory.Put(memory)
			continue
		}
		if err == nil {
			a.peer, a.memory, a.length = in[0].Peer, memory, len(in[0].Data)
		}
		select {
		case m.set.arrivals <- a:
		case <-m.closed:
			return
		}
		if err != nil {
			return
		}
	}
}

// Close closes the socket. The member must not be used afterwards.
func (m *Member) Close() {
	if _, ok := m.set.members[m]; !ok {
		return
	}
	delete(m.set.members, m)
	close(m.closed)
	_ = m.conn.Close() // fails only for a socket that is already closed
}

// Connect makes the socket send only to peer and receive only from peer from now on.
func (m *Member) Connect(peer netip.AddrPort) error {
	m.peer, m.connected = unmapped(peer), true
	return nil
}

// SetPeer makes the socket send to peer from now on. It still receives from all peers.
func (m *Member) SetPeer(peer netip.AddrPort) { m.peer = unmapped(peer) }

// Read returns the messages that have arrived, without waiting; there may be no messages. They are
// valid until the next Wait.
func (m *Member) Read() ([]Message, error) {
	ms := m.ms[m.taken:]
	m.taken = len(m.ms)
	return ms, m.err
}

// Write sends one datagram. If segment is above 0, it sends b as datagrams of that many bytes, of
// which the last may be shorter.
func (m *Member) Write(b []byte, segment int) error {
	m.out[0] = Message{Peer: m.peer, Data: b, Segment: segment}
	_, err := m.conn.Write(m.out[:])
	return err
}
