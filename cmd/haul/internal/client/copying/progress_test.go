package copying

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/cli/screentest"
	"github.com/haul-project/haul/cmd/haul/internal/server/servetest"
	"github.com/haul-project/haul/store/treecopy"
)

func TestCopyState(t *testing.T) {
	for want, s := range map[string]copyState{
		"0 B of 0 B or more, 0 of 0 files, 0 B/s":                 {},
		"1.0 MB of 3.0 MB or more, 1 of 3 files, 1.0 MB/s":        {found: treecopy.Totals{Files: 3, Bytes: 3e6}, moved: 1e6, files: 1, rate: 1e6},
		"33 %, 1.0 MB of 3.0 MB, 1 of 3 files, 1.0 MB/s, 3s left": {found: treecopy.Totals{Files: 3, Bytes: 3e6, All: true}, moved: 1e6, files: 1, rate: 1e6},
		"33 %, 1.0 MB of 3.0 MB, 1.0 MB/s, 3s left":               {found: treecopy.Totals{Files: 1, Bytes: 3e6, All: true}, moved: 1e6, rate: 1e6},
		"100 %, 3.0 MB of 3.0 MB, 1.0 MB/s":                       {found: treecopy.Totals{Files: 1, Bytes: 3e6, All: true}, moved: 3e6, rate: 1e6},
		// The file has grown.
		"100 %, 4.0 MB of 4.0 MB, 1.0 MB/s":                   {found: treecopy.Totals{Files: 1, Bytes: 3e6, All: true}, moved: 4e6, rate: 1e6},
		"33 %, 1.0 MB of 3.0 MB, 0 B/s":                       {found: treecopy.Totals{Files: 1, Bytes: 3e6, All: true}, moved: 1e6},
		"0 %, 0 B of 1000000.00 GB, 1 B/s":                    {found: treecopy.Totals{Files: 1, Bytes: 1e15, All: true}, rate: 1},
		"0 %, 1.00 GB of 3601.00 GB, 1.00 GB/s, 1h0m1s left":  {found: treecopy.Totals{Files: 1, Bytes: 3601e9, All: true}, moved: 1e9, rate: 1e9},
		"0 B of 10 B or more, 10000 of 10000 files, 1.0 kB/s": {found: treecopy.Totals{Files: 9999, Bytes: 10}, files: 10000, rate: 1000},
		"100 %, 1.0 MB of 1.0 MB, 2 of 2 files, 1.0 kB/s":     {found: treecopy.Totals{Files: 2, Bytes: 1e6, All: true}, moved: 1e6, files: 2, rate: 1000},
		"99 %, 999 B of 1.0 kB, 0 of 2 files, 1 B/s, 2s left": {found: treecopy.Totals{Files: 2, Bytes: 1000, All: true}, moved: 999, rate: 1},
		// The file is of unknown size.
		"2.0 MB, 1.0 MB/s": {found: treecopy.Totals{Files: 1}, moved: 2e6, rate: 1e6},
	} {
		if got := s.String(); got != want {
			t.Errorf("%+v is %q, want %q", s, got, want)
		}
	}
}

// The counts are right, however each file ends.
func TestTrackerAddsUp(t *testing.T) {
	p := tracker{active: map[*treecopy.Item]*underWay{}}
	whole, failed, same, dir := &treecopy.Item{From: "a", Size: 100}, &treecopy.Item{From: "b", Size: 50}, &treecopy.Item{From: "c", Size: 30}, &treecopy.Item{From: "d", Type: 1 << 31}
	p.setFound(treecopy.Totals{Files: 3, Bytes: 180, All: true})
	p.started(whole)
	p.progressed(whole, 60)
	p.progressed(whole, -20)
	p.progressed(whole, 60)
	p.ended(whole)
	p.started(failed)
	p.progressed(failed, 10)
	p.ended(failed)
	p.ended(same)
	p.ended(dir)
	now := time.Now()
	if got, want := p.state(now, now).String(), "100 %, 180 B of 180 B, 3 of 3 files, "; !strings.HasPrefix(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// For files of unknown size, the total is known once every file has a size or has ended.
func TestTrackerLearnsSizes(t *testing.T) {
	p := tracker{active: map[*treecopy.Item]*underWay{}}
	a, b := &treecopy.Item{From: "a", Size: unknownSize}, &treecopy.Item{From: "b", Size: unknownSize}
	p.expect(2)
	p.started(a)
	p.started(b)
	p.movedTo(a, 10, 100)
	now := time.Now()
	if got, want := p.state(now, now).String(), "10 B of 100 B or more, 0 of 2 files, "; !strings.HasPrefix(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	p.movedTo(b, 30, 0)
	p.ended(b)
	if got, want := p.state(now, now).String(), "30 %, 40 B of 130 B, 1 of 2 files, "; !strings.HasPrefix(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// An active file costs no allocation.
func TestProgressAllocatesNothing(t *testing.T) {
	p := tracker{active: map[*treecopy.Item]*underWay{}}
	i := &treecopy.Item{From: "a", Size: 1 << 40}
	p.started(i)
	at := int64(0)
	if n := testing.AllocsPerRun(100, func() {
		p.progressed(i, 1000)
		at += 2000
		p.movedTo(i, at, i.Size)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// With Quiet, nothing is printed for a completed file. Otherwise a line is, except for a failed
// file, whose error says more.
func TestSingleFileLine(t *testing.T) {
	for _, c := range []struct {
		quiet bool
		err   error
		want  string
	}{
		{false, nil, "a\\x1b[2J: 1.5 kB in 1s, 1.5 kB/s, 3 packets/s, 1 resends\n"},
		{true, nil, ""},
		{false, errors.New("no"), ""},
	} {
		var out servetest.Buffer
		p := newProgress(&Config{Stderr: &out, Quiet: c.quiet}, true, shownName)
		i := &treecopy.Item{From: "d/a\x1b[2J", Size: unknownSize}
		p.begin(i, "to")
		err := p.complete(t.Context(), i, "to", singleResult{1500, time.Second, 3, 1, c.err})
		p.end()
		if out.String() != c.want || !errors.Is(err, c.err) {
			t.Errorf("quiet %v, error %v: %q, %v", c.quiet, c.err, out.String(), err)
		}
	}
}

// screenState returns the state of a copy whose files began one after the other.
func screenState(files int) copyState {
	s := copyState{found: treecopy.Totals{Files: 40, Bytes: 40e6, All: true}, moved: 13e6, files: 12, rate: 1e6}
	names := []string{"d/kernel", "d/large-file-of-a-directory-number-1.bin", "d/日本語の長い名前のファイル.txt", "d/e\u0301cole-e\u0301te\u0301.txt", "d/bad\x1b[2J\nname", "d/rtl\u202egnp.exe"}
	for i := range files {
		f := activeFile{&treecopy.Item{From: names[i%len(names)]}, underWay{moved: int64(i) * 1e6, size: 5e6}}
		if i == 3 {
			f.size = 0 // unknown
		}
		s.active = append(s.active, f)
	}
	return s
}

// Lines fit terminals of several widths and heights.
func TestScreens(t *testing.T) {
	single := screenState(1)
	single.found = treecopy.Totals{Files: 1, Bytes: 40e6, All: true}
	single.active[0].moved, single.active[0].size = 13e6, 40e6
	unknown := copyState{found: treecopy.Totals{Files: 1}, moved: 2e6, rate: 1e6, active: []activeFile{{&treecopy.Item{From: "dump.sql"}, underWay{moved: 2e6}}}}
	var all screentest.Screens
	all.Add(t, "six files, 80 columns", screenState(6).lines, 79, 23)
	all.Add(t, "six files, 40 columns", screenState(6).lines, 39, 23)
	all.Add(t, "six files, 20 columns", screenState(6).lines, 19, 23)
	all.Add(t, "twenty files, 6 rows", screenState(20).lines, 79, 5)
	all.Add(t, "twenty files, 40 rows", screenState(20).lines, 59, 39)
	all.Add(t, "a row", screenState(6).lines, 79, 1)
	all.Add(t, "no file is slow", screenState(0).lines, 79, 23)
	all.Add(t, "one file, 80 columns", single.lines, 79, 23)
	all.Add(t, "one file, 40 columns", single.lines, 39, 23)
	all.Add(t, "one file, 20 columns", single.lines, 19, 23)
	all.Add(t, "a stream", unknown.lines, 79, 23)
	all.Add(t, "a column", screenState(2).lines, 1, 23)
	all.Compare(t, "screens.txt")
}
