package udp

import (
	"bytes"
	"net/netip"
	"testing"
	"time"
)

// setConfigs holds a SetConfig for each kind of socket that a Set opens.
var setConfigs = map[string]SetConfig{
	"single": {Datagram: 2000},
	"bulk":   {Bulk: true},
}

// newSet returns a Set that is closed at the end of the test.
func newSet(t *testing.T, c SetConfig) *Set {
	t.Helper()
	s, err := NewSet(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// open opens a member of a Set.
func open(t *testing.T, s *Set, peer netip.AddrPort, tag int) *Member {
	t.Helper()
	m, err := s.Open(peer)
	if err != nil {
		t.Fatal(err)
	}
	m.Tag = tag
	return m
}

// writeTo sends from a member.
func writeTo(t *testing.T, m *Member, b []byte, segment int) {
	t.Helper()
	if err := m.Write(b, segment); err != nil {
		t.Fatal(err)
	}
}

// hear waits for datagrams of one member until they have n bytes in total. It returns their data,
// and the source of the last one.
func hear(t *testing.T, s *Set, n int) (tag int, got []byte, from netip.AddrPort) {
	t.Helper()
	for deadline := time.Now().Add(patience); len(got) < n; {
		members, err := s.Wait(deadline)
		if err != nil {
			t.Fatal(err)
		}
		if len(members) == 0 && time.Now().After(deadline) {
			t.Fatalf("%d bytes have come, want %d", len(got), n)
		}
		for _, m := range members {
			ms, err := m.Read()
			if err != nil {
				t.Fatal(err)
			}
			for i := range ms {
				tag, from = m.Tag, ms[i].Peer
				for d := range ms[i].Datagrams() {
					got = append(got, d...)
				}
			}
		}
	}
	return tag, got, from
}

// readOne reads a datagram from a Conn.
func readOne(t *testing.T, c *Conn) Message {
	t.Helper()
	in := buffers(1)
	n, err := c.Read(in, time.Now().Add(patience))
	if err != nil || n != 1 {
		t.Fatalf("read %d messages: %v", n, err)
	}
	return in[0]
}

// gather reads datagrams from a Conn until they have n bytes in total.
func gather(t *testing.T, c *Conn, n int) (got []byte) {
	t.Helper()
	for len(got) < n {
		m := readOne(t, c)
		for d := range m.Datagrams() {
			got = append(got, d...)
		}
	}
	return got
}

func TestSetTellsMembersApart(t *testing.T) {
	for name, config := range setConfigs {
		for family, at := range map[string]netip.Addr{"v4": loopback4, "v6": loopback6} {
			t.Run(name+"/"+family, func(t *testing.T) {
				peer := listen(t, at, Config{})
				s := newSet(t, config)
				ports := map[uint16]int{}
				for tag := range 5 {
					m := open(t, s, peer.LocalAddr(), tag)
					writeTo(t, m, []byte{byte(tag)}, 0)
					got := readOne(t, peer)
					if !bytes.Equal(got.Data, []byte{byte(tag)}) {
						t.Fatalf("%x came", got.Data)
					}
					ports[got.Peer.Port()]++
					if _, err := peer.Write([]Message{{Peer: got.Peer, Data: []byte{byte(10 + tag)}}}); err != nil {
						t.Fatal(err)
					}
					heard, b, from := hear(t, s, 1)
					if heard != tag || b[0] != byte(10+tag) || from != peer.LocalAddr() {
						t.Errorf("member %d heard %x from %v", heard, b, from)
					}
				}
				if len(ports) != 5 {
					t.Errorf("5 members had %d ports", len(ports))
				}
			})
		}
	}
}

// Once connected, a member receives only from its peer.
func TestSetConnect(t *testing.T) {
	for name, config := range setConfigs {
		t.Run(name, func(t *testing.T) {
			door, other := listen(t, loopback4, Config{}), listen(t, loopback4, Config{})
			s := newSet(t, config)
			m := open(t, s, door.LocalAddr(), 1)
			writeTo(t, m, []byte("request"), 0)
			us := readOne(t, door).Peer
			if err := m.Connect(other.LocalAddr()); err != nil {
				t.Fatal(err)
			}
			writeTo(t, m, []byte("onetwosix"), 3)
			if got := gather(t, other, 9); string(got) != "onetwosix" {
				t.Fatalf("%q was sent", got)
			}
			for _, from := range []*Conn{door, other} {
				if _, err := from.Write([]Message{{Peer: us, Data: []byte(from.LocalAddr().String())}}); err != nil {
					t.Fatal(err)
				}
			}
			want := other.LocalAddr().String()
			if _, got, from := hear(t, s, len(want)); string(got) != want || from != other.LocalAddr() {
				t.Errorf("heard %q from %v, want %q alone", got, from, want)
			}
		})
	}
}

// Many datagrams are sent with one Write, and arrive in messages of any size.
func TestSetBulk(t *testing.T) {
	for name, config := range setConfigs {
		t.Run(name, func(t *testing.T) {
			s, far := newSet(t, config), newSet(t, config)
			echo := listen(t, loopback4, Config{})
			m := open(t, s, echo.LocalAddr(), 1)
			// Find out our port, to send to it from the other Set.
			writeTo(t, m, []byte("?"), 0)
			us := readOne(t, echo).Peer
			k := open(t, far, us, 2)
			sent := pattern(40_500) // fits into the kernel's buffer
			writeTo(t, k, sent, 1000)
			if _, got, _ := hear(t, s, len(sent)); !bytes.Equal(got, sent) {
				t.Errorf("%d bytes came, or not as sent", len(got))
			}
		})
	}
}

func TestSetWait(t *testing.T) {
	for name, config := range setConfigs {
		t.Run(name, func(t *testing.T) {
			s := newSet(t, config)
			if members, err := s.Wait(time.Now().Add(-time.Second)); err != nil || len(members) > 0 {
				t.Errorf("without waiting: %v, %v", members, err)
			}
			until := time.Now().Add(20 * time.Millisecond)
			if members, err := s.Wait(until); err != nil || len(members) > 0 || time.Now().Before(until) {
				t.Errorf("with a deadline: %v, %v, %v early", members, err, time.Until(until))
			}
			s.Wake()
			s.Wake()
			if members, err := s.Wait(time.Time{}); err != nil || len(members) > 0 {
				t.Errorf("woken before: %v, %v", members, err)
			}
			go s.Wake()
			if members, err := s.Wait(time.Time{}); err != nil || len(members) > 0 {
				t.Errorf("woken: %v, %v", members, err)
			}
		})
	}
}

// Wait does not return a closed member any more, and another member can take its place.
func TestSetClose(t *testing.T) {
	for name, config := range setConfigs {
		t.Run(name, func(t *testing.T) {
			peer := listen(t, loopback4, Config{})
			s := newSet(t, config)
			for tag := range 3 {
				m := open(t, s, peer.LocalAddr(), tag)
				writeTo(t, m, []byte("x"), 0)
				us := readOne(t, peer).Peer
				if _, err := peer.Write([]Message{{Peer: us, Data: []byte("y")}}); err != nil {
					t.Fatal(err)
				}
				if tag == 1 {
					if got, _, _ := hear(t, s, 1); got != 1 {
						t.Errorf("member %d was heard", got)
					}
				}
				m.Close()
				m.Close()
			}
			if members, err := s.Wait(time.Now().Add(10 * time.Millisecond)); err != nil || len(members) > 0 {
				t.Errorf("after all are closed: %v, %v", members, err)
			}
		})
	}
}
