package pxe

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/boot/dhcp"
	"github.com/haul-project/haul/internal/race"
)

func newServer(t testing.TB) *Server {
	s, err := NewServer(fullRules())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestAnswers sends the seeds of the fuzz target, one after the other, to all ports. The answers
// have the properties that the fuzz target requires, and each kind of client gets an answer.
func TestAnswers(t *testing.T) {
	s := newServer(t)
	now := start
	for name, b := range requests() {
		now = now.Add(time.Second)
		from := Arrival{Port: dhcp.PortServer, FromPort: 68, Server: testServer}
		a := s.Handle(now, b, from, nil)
		if (a.Reason == Answered) == (name == "stranger") {
			t.Errorf("%s: %v", name, a.Why())
		}
		if a.Reason == Answered {
			p, _ := dhcp.Parse(b)
			checkAnswer(t, &p, from, a, len(b))
		}
	}
}

// An answer is appended to the buffer, whose content stays.
func TestAnswerIsAppended(t *testing.T) {
	s := newServer(t)
	a := s.Handle(start, requests()["uefi"], Arrival{Server: testServer}, []byte("before"))
	if !bytes.HasPrefix(a.Packet, []byte("before")) || len(a.Packet) < len("before")+dhcp.MinPacket {
		t.Errorf("got %q", a.Packet)
	}
}

// numbered sets the hardware address and the xid of a request.
func numbered(b []byte, n int) []byte {
	binary.BigEndian.PutUint32(b[4:], uint32(n))
	binary.BigEndian.PutUint32(b[30:], uint32(n))
	return b
}

// A client that sends a hundred requests per second for ten minutes gets 8 answers per second.
// Another client is not affected.
func TestClientThatAsksForEver(t *testing.T) {
	s := newServer(t)
	b, now, answers := requests()["uefi"], start, 0
	var buf []byte
	for i := range 60_000 {
		now = start.Add(time.Duration(i) * 10 * time.Millisecond)
		a := s.Handle(now, numbered(b, 1), Arrival{Server: testServer}, buf[:0])
		switch a.Reason {
		case Answered:
			answers++
			buf = a.Packet
		case MachineRate:
		default:
			t.Fatal(a.Why())
		}
	}
	if want := 600 * MaxRate; answers != want {
		t.Errorf("%d answers, want %d", answers, want)
	}
	if a := s.Handle(now, numbered(b, 2), Arrival{Server: testServer}, nil); a.Reason != Answered {
		t.Errorf("another client: %s", a.Why())
	}
}

// 2,000 clients that send three requests each within a second get as many answers as the total
// bound allows.
func TestManyClients(t *testing.T) {
	s := newServer(t)
	b, answers, refused := requests()["uefi"], 0, 0
	var buf []byte
	for i := range 6000 {
		a := s.Handle(start.Add(time.Duration(i)*time.Second/6000), numbered(b, i%2000), Arrival{Server: testServer}, buf[:0])
		switch a.Reason {
		case Answered:
			answers++
		case TotalRate:
			refused++
		default:
			t.Fatal(a.Why())
		}
	}
	if answers != MaxTotalRate || refused != 6000-MaxTotalRate {
		t.Errorf("%d answers and %d refusals", answers, refused)
	}
	if a := s.Handle(start.Add(time.Second-1), numbered(b, 2001), Arrival{Server: testServer}, nil); a.Reason != TotalRate {
		t.Errorf("a machine more: %s", a.Why())
	}
	if a := s.Handle(start.Add(time.Second), numbered(b, 1), Arrival{Server: testServer}, nil); a.Reason != Answered {
		t.Errorf("a second later: %s", a.Why())
	}
	if n := len(s.table.machines); n != 2000 {
		t.Errorf("%d machines are remembered", n)
	}
}

// If the clock is set back, clients still get answers.
func TestClockGoesBack(t *testing.T) {
	s := newServer(t)
	b := requests()["uefi"]
	for i := range 2 * MaxRate {
		s.Handle(start, numbered(b, 1), Arrival{Server: testServer}, nil)
		if a := s.Handle(start.Add(-time.Hour-time.Duration(i)*2*time.Second), numbered(b, 1), Arrival{Server: testServer}, nil); a.Reason != Answered {
			t.Fatal(a.Why())
		}
	}
}

// If there are too many machines, the one that has been silent for longest is forgotten, together
// with its address.
func TestMachinesAreBounded(t *testing.T) {
	s := newServer(t)
	s.table.limit = 3
	discover, now := requests()["uefi"], start
	ask := func(n int) {
		now = now.Add(time.Second)
		if a := s.Handle(now, numbered(discover, n), Arrival{Server: testServer}, nil); a.Reason != Answered {
			t.Fatal(a.Why())
		}
	}
	lease := func(n int, addr dhcp.Addr) {
		b := append(packet(""), dhcp.OptionMessageType, 1, dhcp.Request)
		b = dhcp.AppendEnd(dhcp.AppendOption(b, dhcp.OptionAddress, addr[:]), 0)
		s.Handle(now, numbered(b, n), Arrival{Server: testServer}, nil)
	}
	remembered := func() (list string) {
		for m := range s.Machines(now) {
			list += m.MAC.String()[15:] + "=" + m.Addr.String() + " "
		}
		return list
	}
	ask(1)
	ask(2)
	ask(3)
	lease(1, dhcp.Addr{192, 0, 2, 1})
	lease(2, dhcp.Addr{192, 0, 2, 2})
	lease(4, dhcp.Addr{192, 0, 2, 4}) // this machine is not a boot client
	if got, want := remembered(), "03=0.0.0.0 02=192.0.2.2 01=192.0.2.1 "; got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
	ask(2)
	lease(3, dhcp.Addr{192, 0, 2, 2}) // now another machine has the address
	ask(4)
	ask(5)
	if got, want := remembered(), "05=0.0.0.0 04=0.0.0.0 02=0.0.0.0 "; got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
	for _, addr := range []dhcp.Addr{{192, 0, 2, 1}, {192, 0, 2, 2}, {192, 0, 2, 4}} {
		if m := s.table.at(addr); m != nil {
			t.Errorf("%v is still that of %v", addr, m.mac)
		}
	}
	for m := range s.Machines(now) {
		if m.Stage != Offered {
			t.Errorf("%v: %v", m.MAC, m.Stage)
		}
		break // the program may end the sequence early
	}
}

// A thousand machines are used in a random order, and the table stays consistent: the order of use
// has each machine once, and both maps lead to the machine.
func TestTableStaysConsistent(t *testing.T) {
	tab := newTable(50)
	rnd := uint32(1)
	for range 20_000 {
		rnd = rnd*1664525 + 1013904223
		mac := dhcp.MakeMAC([]byte{byte(rnd >> 20 % 80)})
		if rnd>>8&1 == 0 {
			tab.use(mac)
		} else {
			tab.leased(mac, dhcp.Addr{10, 0, 0, byte(rnd >> 12 % 60)})
		}
	}
	n, before := 0, int32(-1)
	for i := tab.newest; i >= 0; i = tab.machines[i].older {
		m := &tab.machines[i]
		if m.newer != before || tab.find(m.mac) != m || m.addr != (dhcp.Addr{}) && tab.at(m.addr) != m {
			t.Fatalf("machine %d of the order is %+v", n, m)
		}
		before, n = i, n+1
	}
	if n != 50 || tab.oldest != before || len(tab.byMAC) != n || len(tab.byAddr) > n {
		t.Errorf("%d machines, %d MACs, %d addresses", n, len(tab.byMAC), len(tab.byAddr))
	}
}

// No packet causes an allocation, except one from a machine that is new.
func TestHandleAllocatesNothing(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	s := newServer(t)
	buf := make([]byte, 0, dhcp.MaxReply)
	for name, b := range requests() {
		if name == "two pieces" || name == "overload" {
			continue // joining the values allocates
		}
		now := start
		for _, from := range []Arrival{
			{Port: dhcp.PortServer, FromPort: 68, Server: testServer},
			{Port: dhcp.PortPXE, From: dhcp.Addr{192, 0, 2, 77}, FromPort: 4011, OnLink: true, Server: testServer},
		} {
			handle := func() {
				now = now.Add(time.Second)
				s.Handle(now, b, from, buf[:0])
				s.Requested(now, from.From, "a/boot-file")
			}
			handle()
			if n := testing.AllocsPerRun(100, handle); n > 0 {
				t.Errorf("%s on port %d: %v allocations", name, from.Port, n)
			}
		}
	}
}

func BenchmarkHandle(b *testing.B) {
	s := newServer(b)
	buf := make([]byte, 0, dhcp.MaxReply)
	all := requests()
	hostile := append(packet(""), dhcp.OptionMessageType, 1, dhcp.Discover)
	for len(hostile) < dhcp.MaxRequest-2 {
		hostile = append(hostile, dhcp.OptionVendorClass, 1, 'x')
	}
	all["hostile"] = hostile
	for name, request := range all {
		b.Run(name, func(b *testing.B) {
			now := start
			b.ReportAllocs()
			for b.Loop() {
				now = now.Add(time.Second)
				s.Handle(now, request, Arrival{Server: testServer}, buf[:0])
			}
		})
	}
}
