package doctor

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/server/servetest"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/storetest"
	"github.com/haul-project/haul/tftp"
	"github.com/haul-project/haul/tftp/tftpclient"
)

// patience is how long a test waits for an event that should happen at once.
const patience = 20 * time.Second

// serve starts haul's server on loopback with one file, and returns its address. The file is in
// memory, because a disk may stall for longer than the doctor waits.
func serve(t testing.TB, name string, content []byte, uploads tftp.Uploads) netip.AddrPort {
	t.Helper()
	mem := store.Mem(1 << 30)
	storetest.Put(t, mem, name, content)
	s := tftp.Config{Store: mem, Upload: uploads, Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Grace: time.Millisecond}
	return servetest.TFTP(t, s)
}

// file returns size bytes of random values, including line ends.
func file(size int) []byte {
	b := make([]byte, size)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func target(a netip.AddrPort, name string) tftpclient.Target {
	return tftpclient.Target{Host: a.Addr().String(), Port: a.Port(), Name: name}
}

// testWaits are short where a good server makes the doctor wait for the whole time, and long where
// the doctor waits so long only on a slow machine.
var testWaits = waits{retry: time.Second, quiet: 200 * time.Millisecond, rewind: 2500 * time.Millisecond, lost: patience, silent: 500 * time.Millisecond}

// examine runs the doctor with short waits.
func examine(t testing.TB, c Config) *Diagnosis {
	t.Helper()
	if c.waits == (waits{}) {
		c.waits = testWaits
	}
	if c.Timeout == 0 {
		c.Timeout = patience
	}
	d, err := Examine(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Haul's own server must follow every rule.
func TestHaulHoldsToEveryRule(t *testing.T) {
	for _, size := range []int{0, 1, 512, 5000, 1 << 20} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel() // the test waits most of the time
			a := serve(t, "f", file(size), tftp.CreateUploads)
			d := examine(t, Config{Target: target(a, "f"), Upload: "up", MaxBytes: 2 << 20})
			var text bytes.Buffer
			if err := d.WriteText(&text); err != nil {
				t.Fatal(err)
			}
			if d.Verdict != OK || len(d.Broken) > 0 {
				t.Errorf("haul breaks rules:\n%s", &text)
			}
			for _, r := range d.Reports {
				if r.Verdict == Skipped && size == 1<<20 {
					t.Errorf("%s was skipped with a large file: %q", r.Persona, r.Notes)
				}
			}
		})
	}
}
