//go:build !linux || haul_portable

package udp

import (
	"context"
	"net/netip"
	"sync"
	"time"
)

// A Set is a set of many sockets, all of which one goroutine waits for. It is for a program that
// acts for thousands of clients, each with its own port. On the portable path each socket also has
// a goroutine that receives its datagrams.
//
// Only one goroutine may call the methods, except Wake.
type Set struct {
	config   SetConfig
	arrivals chan arrival
	wake     chan struct{}
	memory   sync.Pool // has *[]byte, each for a datagram
	readers  sync.WaitGroup
	timer    *time.Timer
	members  map[*Member]struct{}
	ready    []*Member
	lent     []*[]byte // memory of the messages of the present Wait
}

// maxArrivals is how many received datagrams may wait for the goroutine that calls Wait.
const maxArrivals = 256

// An arrival is a datagram that was received.
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

// Close closes the Set and all its members.
func (s *Set) Close() error {
	for m := range s.members {
		m.Close()
	}
	s.timer.Stop()
	s.readers.Wait()
	return nil
}

// Open opens a socket for sending to peer. The error wraps syscall.EMFILE if the process may not
// open more descriptors.
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
// until Wake is called. It returns the members that have something to read. The result is valid
// until the next Wait.
func (s *Set) Wait(deadline time.Time) ([]*Member, error) {
	s.reclaim()
	if later(deadline) {
		var over <-chan time.Time // nil without a deadline, so it never fires
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

// reclaim frees the memory of the previous Wait.
func (s *Set) reclaim() {
	for _, b := range s.lent {
		s.memory.Put(b)
	}
	for _, m := range s.ready {
		m.ms, m.taken, m.err = m.ms[:0], 0, nil
	}
	s.lent, s.ready = s.lent[:0], s.ready[:0]
}

// take passes an arrival to its member.
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

// Wake ends the present Wait, or the next one if no goroutine waits. Any goroutine may call it.
func (s *Set) Wake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// A Member is one socket of a [Set].
type Member struct {
	// Tag identifies the member for its owner.
	Tag int

	set       *Set
	conn      *Conn
	peer      netip.AddrPort
	connected bool
	closed    chan struct{}
	ms        []Message // received in the present Wait
	taken     int       // number of these that Read has returned
	err       error
	out       [1]Message
}

// read receives datagrams and passes them on, until the socket is closed.
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

// Close closes the socket. The member may not be used again.
func (m *Member) Close() {
	if _, ok := m.set.members[m]; !ok {
		return
	}
	delete(m.set.members, m)
	close(m.closed)
	_ = m.conn.Close() // only a second Close would fail
}

// Connect makes the socket send to peer from now on, and receive only from peer.
func (m *Member) Connect(peer netip.AddrPort) error {
	m.peer, m.connected = unmapped(peer), true
	return nil
}

// SetPeer makes the socket send to peer from now on. It still receives from all peers.
func (m *Member) SetPeer(peer netip.AddrPort) { m.peer = unmapped(peer) }

// Read returns the messages that have arrived, without waiting. The result may be empty. The
// messages are valid until the next Wait.
func (m *Member) Read() ([]Message, error) {
	ms := m.ms[m.taken:]
	m.taken = len(m.ms)
	return ms, m.err
}

// Write sends a datagram or, with a segment above zero, datagrams of that many bytes; the last one
// may be shorter.
func (m *Member) Write(b []byte, segment int) error {
	m.out[0] = Message{Peer: m.peer, Data: b, Segment: segment}
	_, err := m.conn.Write(m.out[:])
	return err
}
