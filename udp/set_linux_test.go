//go:build linux && !haul_portable

package udp

import (
	"errors"
	"syscall"
	"testing"
	"time"
)

// A turn of a loop allocates nothing.
func TestSetAllocs(t *testing.T) {
	for name, config := range setConfigs {
		for _, connected := range []bool{false, true} {
			peer := listen(t, loopback4, Config{})
			s := newSet(t, config)
			m := open(t, s, peer.LocalAddr(), 1)
			if connected {
				if err := m.Connect(peer.LocalAddr()); err != nil {
					t.Fatal(err)
				}
			}
			in, out, arrived := buffers(1), pattern(3000), 0
			turn := func() {
				if err := m.Write(out, 1000); err != nil {
					t.Fatal(err)
				}
				for arrived = 0; arrived < 3000; {
					n, err := peer.Read(in, time.Time{})
					if err != nil {
						t.Fatal(err)
					}
					if _, err := peer.Write(in[:n]); err != nil {
						t.Fatal(err)
					}
					arrived += len(in[0].Data)
				}
				for arrived = 0; arrived < 3000; {
					members, err := s.Wait(time.Now().Add(patience))
					if err != nil {
						t.Fatal(err)
					}
					for _, m := range members {
						ms, err := m.Read()
						if err != nil {
							t.Fatal(err)
						}
						for i := range ms {
							arrived += len(ms[i].Data)
						}
					}
				}
			}
			if allocs := testing.AllocsPerRun(100, turn); allocs != 0 {
				t.Errorf("%s, connected %v: %v allocations a turn", name, connected, allocs)
			}
		}
	}
}

// A member that sends to a closed port gets the refusal, before and after
// Connect.
func TestSetRefused(t *testing.T) {
	for _, connected := range []bool{false, true} {
		gone := listen(t, loopback4, Config{})
		at := gone.LocalAddr()
		gone.Close()
		s := newSet(t, SetConfig{})
		m := open(t, s, at, 1)
		if connected {
			if err := m.Connect(at); err != nil {
				t.Fatal(err)
			}
		}
		writeTo(t, m, []byte("x"), 0)
		members, err := s.Wait(time.Now().Add(patience))
		if err != nil || len(members) != 1 {
			t.Fatalf("connected %v: waited for %v: %v", connected, members, err)
		}
		if _, err := m.Read(); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("connected %v: Read says %v", connected, err)
		}
		if members, err := s.Wait(time.Now().Add(10 * time.Millisecond)); err != nil || len(members) > 0 {
			t.Errorf("connected %v: reported twice: %v, %v", connected, members, err)
		}
	}
}

// A peer's last datagrams are read before the report that the peer is gone, and no Write removes
// that report.
func TestSetRefusalIsLast(t *testing.T) {
	for _, bulk := range []bool{false, true} {
		for _, connected := range []bool{false, true} {
			peer := listen(t, loopback4, Config{})
			s := newSet(t, SetConfig{Bulk: bulk})
			m := open(t, s, peer.LocalAddr(), 1)
			writeTo(t, m, []byte("x"), 0)
			if connected {
				if err := m.Connect(peer.LocalAddr()); err != nil {
					t.Fatal(err)
				}
			}
			from := read(t, peer, 1)[0].peer
			write(t, peer, Message{Peer: from, Data: []byte("last")})
			peer.Close()
			writeTo(t, m, []byte("x"), 0)
			writeTo(t, m, []byte("x"), 0)
			writeTo(t, m, pattern(2500), 1000)
			ms, err := m.Read()
			if err != nil || len(ms) != 1 || string(ms[0].Data) != "last" {
				t.Fatalf("bulk %v, connected %v: the first Read = %v, %v", bulk, connected, ms, err)
			}
			if members, err := s.Wait(time.Now().Add(patience)); err != nil || len(members) != 1 {
				t.Fatalf("bulk %v, connected %v: waited for %v: %v", bulk, connected, members, err)
			}
			if ms, err := m.Read(); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("bulk %v, connected %v: the second Read = %v, %v", bulk, connected, ms, err)
			}
		}
	}
}

// If the path does not accept messages that the kernel cuts up, the datagrams are sent one by one.
func TestSetWithoutCutting(t *testing.T) {
	peer := listen(t, loopback4, Config{})
	s := newSet(t, SetConfig{})
	s.cuts = false
	m := open(t, s, peer.LocalAddr(), 1)
	writeTo(t, m, pattern(2500), 1000)
	if got := gather(t, peer, 2500); string(got) != string(pattern(2500)) {
		t.Error("not as sent")
	}
}

// On a kernel that can wait only for whole milliseconds, Wait lasts until the deadline too.
func TestSetCoarseWait(t *testing.T) {
	s := newSet(t, SetConfig{})
	s.coarse = true
	until := time.Now().Add(3500 * time.Microsecond)
	if members, err := s.Wait(until); err != nil || len(members) > 0 || time.Now().Before(until) {
		t.Errorf("%v, %v, %v early", members, err, time.Until(until))
	}
}
