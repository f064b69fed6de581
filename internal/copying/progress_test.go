package copying

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/serve/servetest"
	"github.com/haul-project/haul/store/treecopy"
)

func TestCopyState(t *testing.T) {
	for want, s := range map[string]copyState{
		"0 B of 0 B or more, 0 of 0 files, 0 B/s":                 {},
		"1.0 MB of 3.0 MB or more, 1 of 3 files, 1.0 MB/s":        {found: treecopy.Totals{Files: 3, Bytes: 3e6}, moved: 1e6, files: 1, rate: 1e6},
		"33 %, 1.0 MB of 3.0 MB, 1 of 3 files, 1.0 MB/s, 3s left": {found: treecopy.Totals{Files: 3, Bytes: 3e6, All: true}, moved: 1e6, files: 1, rate: 1e6},
		"33 %, 1.0 MB of 3.0 MB, 1.0 MB/s, 3s left":               {found: treecopy.Totals{Files: 1, Bytes: 3e6, All: true}, moved: 1e6, rate: 1e6},
		"100 %, 3.0 MB of 3.0 MB, 1.0 MB/s":                       {found: treecopy.Totals{Files: 1, Bytes: 3e6, All: true}, moved: 3e6, rate: 1e6},
		"100 %, 4.0 MB of 4.0 MB, 1.0 MB/s":                       {found: treecopy.Totals{Files: 1, Bytes: 3e6, All: true}, moved: 4e6, rate: 1e6}, // it has grown
		"33 %, 1.0 MB of 3.0 MB, 0 B/s":                           {found: treecopy.Totals{Files: 1, Bytes: 3e6, All: true}, moved: 1e6},
		"0 %, 0 B of 1000000.00 GB, 1 B/s":                        {found: treecopy.Totals{Files: 1, Bytes: 1e15, All: true}, rate: 1},
		"0 %, 1.00 GB of 3601.00 GB, 1.00 GB/s, 1h0m1s left":      {found: treecopy.Totals{Files: 1, Bytes: 3601e9, All: true}, moved: 1e9, rate: 1e9},
		"0 B of 10 B or more, 10000 of 10000 files, 1.0 kB/s":     {found: treecopy.Totals{Files: 9999, Bytes: 10}, files: 10000, rate: 1000},
		"100 %, 1.0 MB of 1.0 MB, 2 of 2 files, 1.0 kB/s":         {found: treecopy.Totals{Files: 2, Bytes: 1e6, All: true}, moved: 1e6, files: 2, rate: 1000},
		"99 %, 999 B of 1.0 kB, 0 of 2 files, 1 B/s, 2s left":     {found: treecopy.Totals{Files: 2, Bytes: 1000, All: true}, moved: 999, rate: 1},
	} {
		if got := s.String(); got != want {
			t.Errorf("%+v is %q, want %q", s, got, want)
		}
	}
}

// The counts from the hooks add up, however each file ended.
func TestCopyProgressAddsUp(t *testing.T) {
	var out servetest.Buffer
	p := newCopyProgress(&out, true)
	h := p.hooks()
	whole, failed, same, dir := &treecopy.Item{From: "a", Size: 100}, &treecopy.Item{From: "b", Size: 50}, &treecopy.Item{From: "c", Size: 30}, &treecopy.Item{From: "d", Type: 1 << 31}
	h.Found(treecopy.Totals{Files: 3, Bytes: 180, All: true})
	h.Started(whole)
	h.Progress(whole, 60)
	h.Progress(whole, -20)
	h.Progress(whole, 60)
	h.Ended(whole, treecopy.Outcome{What: treecopy.Copied, Bytes: 100})
	h.Started(failed)
	h.Progress(failed, 10)
	h.Ended(failed, treecopy.Outcome{What: treecopy.Failed, Bytes: 10, Err: errors.New("no")})
	h.Ended(same, treecopy.Outcome{What: treecopy.Same})
	h.Ended(dir, treecopy.Outcome{What: treecopy.Made})
	if got, want := p.line(time.Now()), "100 %, 180 B of 180 B, 3 of 3 files, "; !strings.HasPrefix(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	p.end()
	if out.String() != "" {
		t.Errorf("quiet, it says %q", out.String())
	}
}
