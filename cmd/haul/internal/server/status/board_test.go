package status

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/boot/pxe"
	"github.com/haul-project/haul/cmd/haul/internal/server/meter"
)

var (
	peer = netip.MustParseAddrPort("[::ffff:192.0.2.7]:2070")
	day  = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
)

// newBoard returns a board of a server with two protocols, and the registry for transfers.
func newBoard() (*Board, *meter.Registry) {
	b := &Board{Version: "v1.2.3", Protocols: []meter.Protocol{meter.TFTP, meter.HTTPS}}
	b.Transfers = meter.New(meter.Config{Ended: b.Ended, Protocols: b.Protocols})
	return b, b.Transfers
}

// The rate of a transfer counts from the sample before the latest, or from its beginning.
func TestRate(t *testing.T) {
	b, r := newBoard()
	b.init()
	old := r.Begin(meter.Info{Protocol: meter.TFTP, Peer: peer, Name: "old", Size: 100e6, Began: day})
	old.Reached(50e6)
	b.sample(day.Add(10 * time.Second))
	old.Reached(55e6)
	b.sample(day.Add(15 * time.Second))
	old.Reached(60e6)
	r.Begin(meter.Info{Protocol: meter.HTTPS, Write: true, Name: "new", User: "alice", Began: day.Add(19 * time.Second)}).Reached(3e6)
	r.Refuse(meter.TFTP, meter.Busy, 3)
	s := b.snapshot(day.Add(20 * time.Second))
	if note := s.page(b).Protocols.Note; !strings.Contains(note, "TFTP turned away 3 requests: as many are under way as may be, see --max-transfers.") {
		t.Errorf("the note is %q", note)
	}
	if len(s.transfers) != 2 {
		t.Fatalf("%d transfers", len(s.transfers))
	}
	fast, slow := s.transfers[0], s.transfers[1]
	if fast.File != "new" || fast.Rate != 3e6 || fast.Direction != "write" || fast.User != "alice" || fast.Size != nil || fast.Peer != "" {
		t.Errorf("the fast one is %+v", fast)
	}
	if slow.File != "old" || slow.Rate != 1e6 || slow.Peer != "192.0.2.7:2070" || slow.Size == nil || *slow.Size != 100e6 || slow.Bytes != 60e6 {
		t.Errorf("the slow one is %+v", slow)
	}
	if got := fmt.Sprintf("%+v", s.totals); got != "[{Protocol:tftp Live:1 Rate:1000000 Bytes:60000000 Ended:0 Failed:0 TurnedAway:map[busy:3]} {Protocol:https Live:1 Rate:3000000 Bytes:3000000 Ended:0 Failed:0 TurnedAway:map[]}]" {
		t.Errorf("the totals are %s", got)
	}
	if again := b.snapshot(day.Add(20*time.Second + freshFor/2)); again != s {
		t.Error("what is shown was made anew within its time")
	}
	if b.snapshot(day.Add(20*time.Second+freshFor)) == s {
		t.Error("what is shown was not made anew")
	}
}

// Samples count everything since the previous sample, including transfers under way. Nothing is
// counted twice when a transfer ends.
func TestSamples(t *testing.T) {
	b, r := newBoard()
	b.init()
	x := r.Begin(meter.Info{Protocol: meter.TFTP, Name: "x"})
	x.Reached(1000)
	b.sample(day)
	x.Reached(1500)
	x.End(meter.End{Result: meter.Done, Bytes: 1700, Sent: 10, Resent: 3})
	r.Begin(meter.Info{Protocol: "gopher"}).End(meter.End{Result: meter.Failed})
	b.sample(day.Add(sampleEvery))
	y := r.Begin(meter.Info{Protocol: meter.TFTP, Name: "y"})
	y.End(meter.End{Result: meter.Failed, Err: syscall.ENOSPC})
	b.sample(day.Add(2 * sampleEvery))
	got := b.hour().Protocols[0]
	if s := fmt.Sprint(got.Bytes, got.Live, got.Ended, got.Failed, got.Sent, got.Resent); s != "[1000 700 0] [1 0 0] [0 1 1] [0 0 1] [0 10 0] [0 3 0]" {
		t.Errorf("the samples are %s", s)
	}
	for i := range samples {
		b.sample(day.Add(time.Duration(i) * sampleEvery))
	}
	if got := b.hour().Protocols[0]; len(got.Bytes) != samples || sum(got.Bytes) != 0 {
		t.Errorf("after an hour there are %d samples with %d bytes", len(got.Bytes), sum(got.Bytes))
	}
}

// The number of bytes moved never decreases, even if a transfer ends while the sum is computed.
func TestMovedStays(t *testing.T) {
	b, r := newBoard()
	first, second := r.Begin(meter.Info{Protocol: meter.TFTP}), r.Begin(meter.Info{Protocol: meter.TFTP})
	second.Reached(1000)
	if n := b.snapshot(day).totals[0].Bytes; n != 1000 {
		t.Fatalf("%d bytes", n)
	}
	first.Follow(func() int64 { // called after the ended ones have been added up
		second.End(meter.End{Result: meter.Done})
		return 0
	})
	for i := range 2 {
		if n := b.snapshot(day.Add(time.Duration(i+1) * freshFor)).totals[0].Bytes; n != 1000 {
			t.Errorf("%d bytes", n)
		}
	}
}

// The latest failures are kept, with advice. Routine ends do not count as failures.
func TestFailures(t *testing.T) {
	b, r := newBoard()
	end := func(name string, e meter.End) {
		r.Begin(meter.Info{Protocol: meter.TFTP, Peer: peer, Name: name}).End(e)
	}
	for _, result := range []meter.Result{meter.Done, meter.Unconfirmed, meter.Probe, meter.Replaced} {
		end("fine", meter.End{Result: result})
	}
	end("missing", meter.End{Result: meter.Refused, Err: fs.ErrNotExist, Routine: true})
	for i := range maxFailures + 44 {
		end(fmt.Sprint("file", i), meter.End{Result: meter.Failed, Err: errors.New("cause " + strings.Repeat("c", 2*maxCause))})
	}
	long := strings.Repeat("n", 2*maxName)
	end(long, meter.End{Result: meter.PeerSilent, Bytes: 5, File: long})
	list := b.failures.list()
	if len(list) != maxFailures {
		t.Fatalf("%d failures are kept", len(list))
	}
	if f := list[0]; f.Result != "peer silent" || len(f.File) != maxName || !strings.Contains(f.Advice, "cable") || f.Peer != "192.0.2.7:2070" {
		t.Errorf("the latest is %+v", f)
	}
	if f := list[1]; f.File != fmt.Sprint("file", maxFailures+43) || len(f.Cause) != maxCause || f.Advice != "" {
		t.Errorf("the one before is %+v", f)
	}
	end(strings.Repeat("n", maxName-1)+"é", meter.End{Result: meter.Failed, File: strings.Repeat("n", maxName-1) + "é"})
	if f := b.failures.list()[0]; f.File != strings.Repeat("n", maxName-1) || f.FileBytes != nil {
		t.Errorf("a long name became %q, %q", f.File, f.FileBytes)
	}
	if f := list[maxFailures-1]; f.File != "file45" {
		t.Errorf("the oldest is %s", f.File)
	}
	if n := b.snapshot(day).totals[0]; n.Ended != maxFailures+51 || n.Failed != maxFailures+46 {
		t.Errorf("the totals are %+v", n)
	}
}

// Each cause that somebody can fix has advice.
func TestAdvice(t *testing.T) {
	for err, want := range map[error]string{
		syscall.ENOSPC: "Free space", &fs.PathError{Err: syscall.EMFILE}: "open files", syscall.EROFS: "read-only", syscall.EIO: "disk",
		fs.ErrPermission: "--access", fs.ErrNotExist: "--fold-case", fs.ErrExist: "overwrite",
	} {
		if got := adviceOn(meter.Ended{End: meter.End{Result: meter.Failed, Err: err}}); !strings.Contains(got, want) {
			t.Errorf("%v: %q", err, got)
		}
	}
	for want, e := range map[string]meter.Ended{
		"--upload": {Info: meter.Info{Write: true}, End: meter.End{Err: fs.ErrPermission}},
		"firewall": {Info: meter.Info{Protocol: meter.TFTP}, End: meter.End{Result: meter.PeerSilent}},
		"cable":    {Info: meter.Info{Protocol: meter.TFTP}, End: meter.End{Result: meter.PeerSilent, Bytes: 1}},
		"network":  {Info: meter.Info{Protocol: meter.HTTP}, End: meter.End{Result: meter.PeerSilent}},
	} {
		if got := adviceOn(e); !strings.Contains(got, want) {
			t.Errorf("want %q, got %q", want, got)
		}
	}
}

// Stuck machines come first, and there is room for all machines that package pxe remembers.
func TestMachines(t *testing.T) {
	b, _ := newBoard()
	b.Machines = func() (all []pxe.Machine) {
		for i := range pxe.MaxMachines {
			all = append(all, pxe.Machine{Stage: pxe.Quiet, Before: pxe.Kernel, File: "ipxe.efi", Last: day.Add(-time.Duration(i) * time.Second)})
		}
		all[5].Stage, all[5].Before = pxe.Stuck, pxe.Loader
		all[6].Stage = pxe.Offered
		return all
	}
	s := b.snapshot(day)
	if len(s.machines) != maxMachines {
		t.Fatalf("%d machines", len(s.machines))
	}
	if m := s.machines[0]; m.Stage != "stuck" || m.Before != "loader" || m.Age != 5 || m.Address != "" {
		t.Errorf("the first is %+v", m)
	}
	if m := s.machines[1]; m.Stage != "offered" || m.Before != "" {
		t.Errorf("the second is %+v", m)
	}
	if n := s.stages; n["stuck"] != 1 || n["offered"] != 1 || n["quiet"] != pxe.MaxMachines-2 {
		t.Errorf("%v", n)
	}
	v := s.page(b)
	if n := len(v.Machines.Rows); n != maxRows || !v.Machines.Rows[0].Bad || !strings.HasPrefix(v.Machines.Note, "1 stuck, 1 offered, ") {
		t.Errorf("%d rows, %q", n, v.Machines.Note)
	}
}
