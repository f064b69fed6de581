package pxe

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/boot/dhcp"
)

// A server that takes over knows which form a machine understands, and the machine's stage. It
// makes the same offer as the other server would.
func TestMemories(t *testing.T) {
	rules := fullRules()
	old, _ := NewServer(rules)
	from := Arrival{Port: dhcp.PortServer, FromPort: 68, Server: testServer}
	all := requests()
	discover := func(s *Server, at time.Duration, name string, last byte) Answer {
		b := slices.Clone(all[name])
		b[28+5] = last
		return s.Handle(start.Add(at), b, from, nil)
	}
	discover(old, 0, "uefi", 1) // an offer in the form Redirect
	discover(old, time.Hour, "uefi", 2)
	discover(old, time.Hour, "ipxe-lacks", 3)
	discover(old, time.Hour, "http", 4)
	old.Handle(start.Add(time.Hour), all["uefi"], Arrival{Port: dhcp.PortPXE, From: dhcp.Addr{192, 0, 2, 77}, FromPort: 4011, OnLink: true, Server: testServer}, nil)
	old.Requested(start.Add(time.Hour), dhcp.Addr{192, 0, 2, 77}, "boot.ipxe")

	now := start.Add(time.Hour + time.Second)
	saved := slices.Collect(old.Memories())
	text, err := json.Marshal(saved)
	if err != nil {
		t.Fatal(err)
	}
	var read []Memory
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	fresh, _ := NewServer(rules)
	for _, m := range slices.Backward(read) {
		if err := fresh.Restore(now, m); err != nil {
			t.Error(err)
		}
	}
	was, is := slices.Collect(old.Machines(now)), slices.Collect(fresh.Machines(now))
	if len(is) != 4 || len(was) != 4 {
		t.Fatalf("%d machines of %d", len(is), len(was))
	}
	for i := range was {
		same := was[i].Last.Equal(is[i].Last)
		if is[i].Last = was[i].Last; !same || was[i] != is[i] {
			t.Errorf("machine %d was %+v and is %+v", i, was[i], is[i])
		}
	}
	for name, last := range map[string]byte{"uefi": 1, "ipxe-lacks": 3, "http": 4} {
		a, b := discover(old, 2*time.Hour, name, last), discover(fresh, 2*time.Hour, name, last)
		if !reflect.DeepEqual(a, b) || a.Reason != Answered {
			t.Errorf("%s: the old server answers %+v, the new one %+v", name, a, b)
		}
	}
	if a := discover(fresh, 3*time.Hour, "uefi", 2); a.Form != Direct {
		t.Errorf("an offer without effect is forgotten: %v", a.Form)
	}
}

// Restore refuses memories that no server can have, and a server keeps no more machines than its
// bound.
func TestRestoreRefuses(t *testing.T) {
	good := Memory{MAC: dhcp.MakeMAC([]byte{1}), Class: PXEClient, Arch: X64, Stage: Offered, Since: start, Last: start}
	s, _ := NewServer(Rules{})
	for name, spoil := range map[string]func(*Memory){
		"no MAC":  func(m *Memory) { m.MAC = dhcp.MAC{} },
		"address": func(m *Memory) { m.Addr = dhcp.Broadcast },
		"class":   func(m *Memory) { m.Class = 200 },
		"arch":    func(m *Memory) { m.Arch = NumArchs },
		"form":    func(m *Memory) { m.Form = NumForms },
		"tried":   func(m *Memory) { m.Tried = 77 },
		"stage":   func(m *Memory) { m.Stage = Stuck },
		"future":  func(m *Memory) { m.Chained = start.Add(1) },
		"file":    func(m *Memory) { m.File = "/etc/passwd" },
	} {
		m := good
		spoil(&m)
		if err := s.Restore(start, m); err == nil || len(s.table.machines) > 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := s.Restore(start, good); err != nil {
		t.Error(err)
	}
	known := good
	known.Stage = Kernel
	if err := s.Restore(start, known); err != nil || s.table.find(good.MAC).boot.stage != Offered {
		t.Errorf("a machine that is known: %v", err)
	}
	s.table.limit = 3
	for i := range byte(5) {
		m := good
		m.MAC = dhcp.MakeMAC([]byte{2, i})
		if err := s.Restore(start, m); err != nil {
			t.Error(err)
		}
	}
	if len(s.table.machines) != 3 || len(s.table.byMAC) != 3 {
		t.Errorf("%d machines, %d MACs", len(s.table.machines), len(s.table.byMAC))
	}
}

// Whatever a memory contains, a server that has restored it answers like one that has not, apart
// from the form.
func FuzzRestore(f *testing.F) {
	f.Add([]byte(`{"mac":"52:54:00:12:34:56","class":1,"arch":3,"tried":2,"tries":255,"stage":1}`))
	f.Add([]byte(`{"mac":"52","addr":"192.0.2.1","file":"x","chained":"1960-01-01T00:00:00Z","chain_xid":4294967295}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var m Memory
		if json.Unmarshal(b, &m) != nil {
			return
		}
		s := newServer(t)
		if s.Restore(start, m) != nil {
			return
		}
		now := start
		for name, request := range requests() {
			request = slices.Clone(request)
			request[2] = uint8(copy(request[28:44], m.MAC.Bytes()))
			from := Arrival{Port: dhcp.PortServer, FromPort: 68, Server: testServer}
			now = now.Add(time.Second)
			a := s.Handle(now, request, from, nil)
			if p, err := dhcp.Parse(request); err == nil && a.Reason == Answered {
				checkAnswer(t, &p, from, a, len(request))
			} else if a.Reason == MachineRate {
				t.Fatalf("%s: %+v", name, a)
			}
		}
	})
}

// Machines that become quiet or stuck are returned once; a request changes the stage at once.
func TestChanges(t *testing.T) {
	s := newServer(t)
	from := Arrival{Port: dhcp.PortServer, FromPort: 68, Server: testServer}
	s.Handle(start, requests()["uefi"], from, nil)
	changes := func(at time.Duration) (stages []Stage) {
		for m := range s.Changes(start.Add(at)) {
			stages = append(stages, m.Before, m.Stage)
		}
		return stages
	}
	if got := changes(stuckAfter - 1); got != nil {
		t.Errorf("before its time: %v", got)
	}
	if got := changes(stuckAfter); !slices.Equal(got, []Stage{Offered, Stuck}) {
		t.Errorf("after an offer without effect: %v", got)
	}
	if got := changes(stuckAfter + time.Second); got != nil {
		t.Errorf("a second time: %v", got)
	}
	s.table.leased(dhcp.MakeMAC(requests()["uefi"][28:34]), dhcp.Addr{192, 0, 2, 7})
	for i, step := range []struct {
		name    string
		want    Stage
		changed bool
	}{{"ipxe.efi", Loader, true}, {"ipxe.efi", Loader, false}, {"boot.ipxe", Script, true}} {
		m, changed := s.Requested(start.Add(time.Hour), dhcp.Addr{192, 0, 2, 7}, step.name)
		if m.Stage != step.want || changed != step.changed {
			t.Errorf("step %d: %v %v", i, m.Stage, changed)
		}
	}
	if got := changes(time.Hour + quietAfter); !slices.Equal(got, []Stage{Script, Quiet}) {
		t.Errorf("after a script: %v", got)
	}
}
