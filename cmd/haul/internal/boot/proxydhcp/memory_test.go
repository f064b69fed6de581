package proxydhcp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/boot/dhcp"
	"github.com/haul-project/haul/cmd/haul/internal/boot/pxe"
)

// offered makes a server offer something to machines with numbers from from to to.
func offered(t *testing.T, s *Server, from, to int) {
	t.Helper()
	x64, _ := ParseKind("x64")
	at := time.Now().Add(-time.Hour)
	for n := from; n < to; n++ {
		mac := dhcp.MakeMAC(binary.BigEndian.AppendUint32([]byte{2, 0}, uint32(n)))
		packet := x64.appendRequest(nil, dhcp.Discover, mac, uint32(n), dhcp.Addr{})
		a := s.decide.Handle(at.Add(time.Duration(n)*time.Millisecond), packet, pxe.Arrival{Port: dhcp.PortServer, Server: dhcp.Addr{192, 0, 2, 9}}, nil)
		if a.Reason != pxe.Answered {
			t.Fatal(a.Why())
		}
	}
}

func newMemoryService(t *testing.T) (*Service, *bytes.Buffer) {
	t.Helper()
	b, out := newTestService(t, Settings{Answer: true, Files: map[pxe.Arch]string{pxe.X64: "ipxe.efi"}})
	t.Cleanup(b.Close)
	return b, out
}

// A successor gets the latest machines in their order, as many as fit within the bound.
func TestMemoryIsHandedOver(t *testing.T) {
	old, _ := newMemoryService(t)
	const machines = 5000
	offered(t, old.Server, 0, machines)
	memory := old.appendMemory(nil)
	if len(memory) > maxMemory || len(memory) < maxMemory-1000 {
		t.Errorf("%d machines take %d bytes", machines, len(memory))
	}
	f, err := memoryFile(memory)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("there are no files in memory")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fresh, _ := newMemoryService(t)
	fresh.takeMemory(f)
	was, is := old.Machines(), fresh.Machines()
	if len(is) != bytes.Count(memory, []byte("\n")) || len(is) < 2000 {
		t.Fatalf("%d machines are remembered of %d", len(is), len(was))
	}
	for i := range is {
		if is[i].MAC != was[i].MAC || is[i].Form != was[i].Form || is[i].Stage != was[i].Stage {
			t.Fatalf("machine %d is %+v, and was %+v", i, is[i], was[i])
		}
	}
}

// Lines that cannot be read are skipped and logged, and the good ones among them stay. A file that
// could block is not read.
func TestMemoryIsNotTrusted(t *testing.T) {
	old, _ := newMemoryService(t)
	offered(t, old.Server, 0, 2)
	good := old.appendMemory(nil)
	for name, test := range map[string]struct {
		memory string
		want   int
		logged string
	}{
		"nothing":    {memory: ""},
		"no JSON":    {memory: "\x00\xff[[[{{{\n" + string(good), want: 2, logged: "1 of 3 machines are not remembered"},
		"cut":        {memory: string(good[:len(good)-5]), want: 1, logged: "1 of 2 machines"},
		"wrong kind": {memory: `{"mac":7}` + "\n" + `{"mac":"52:54:00:12:34:56","form":"x"}`, logged: "2 of 2 machines"},
		"overflow":   {memory: `{"mac":"52:54:00:12:34:56","tries":256}`, logged: "1 of 1"},
		"nonsense":   {memory: `{"mac":"52:54:00:12:34:56","stage":99}`, logged: "1 of 1"},
		"the same":   {memory: string(good) + string(good), want: 2},
		"nested":     {memory: strings.Repeat("[", 1<<19), logged: "1 of 1"},
	} {
		t.Run(name, func(t *testing.T) {
			b, out := newTestService(t, Settings{Answer: true})
			f, err := os.CreateTemp(t.TempDir(), "")
			if err == nil {
				_, err = f.WriteString(test.memory)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			b.takeMemory(f)
			b.Close()
			if n := len(b.Machines()); n != test.want {
				t.Errorf("%d machines are remembered, want %d", n, test.want)
			}
			if got := out.String(); test.logged == "" && got != "" || !strings.Contains(got, test.logged) {
				t.Errorf("the log has %q, want %q", got, test.logged)
			}
		})
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if _, err := readMemory(r); err == nil {
		t.Error("a pipe is read")
	}
	large, err := os.Create(t.TempDir() + "/large")
	if err == nil {
		err = large.Truncate(maxMemory + 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer large.Close()
	if _, err := readMemory(large); err == nil {
		t.Error("a file above the bound is read")
	}
}
