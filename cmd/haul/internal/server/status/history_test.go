package status

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/server/handover"
	"github.com/haul-project/haul/cmd/haul/internal/server/meter"
)

// The board of the next process continues the hour and the failures of its predecessor, and keeps
// what it has recorded itself.
func TestHistory(t *testing.T) {
	old, r := newBoard()
	old.init()
	fail := func(r *meter.Registry, name string) {
		r.Begin(meter.Info{Protocol: meter.TFTP, Name: name}).End(meter.End{Result: meter.Failed, Bytes: 10, Err: errors.New("why"), File: name})
	}
	fail(r, "\xff<old>")
	old.sample(day)
	fail(r, "older")
	old.sample(day.Add(sampleEvery))

	next, r := newBoard()
	next.Protocols = []meter.Protocol{meter.SFTP, meter.TFTP} // HTTPS is no longer served
	next.init()
	if err := next.Remember(old.History()); err != nil {
		t.Fatal(err)
	}
	if at := next.hour().Time; !at.Equal(day.Add(sampleEvery)) {
		t.Errorf("the hour ends at %v", at)
	}
	fail(r, "new")
	next.sample(day.Add(2 * sampleEvery))

	late, _ := newBoard() // has its own data before it gets the history
	late.init()
	late.sample(day.Add(3 * sampleEvery))
	fail(late.Transfers, "late")
	if err := late.Remember(next.History()); err != nil {
		t.Fatal(err)
	}
	for b, want := range map[*Board]string{
		next: "[{sftp [0 0 0] [0 0 0] [0 0 0] [0 0 0] [0 0 0] [0 0 0]} {tftp [10 10 10] [0 0 0] [1 1 1] [1 1 1] [0 0 0] [0 0 0]}]",
		late: "[{tftp [10 10 10 0] [0 0 0 0] [1 1 1 0] [1 1 1 0] [0 0 0 0] [0 0 0 0]} {https [0 0 0 0] [0 0 0 0] [0 0 0 0] [0 0 0 0] [0 0 0 0] [0 0 0 0]}]",
	} {
		if got := fmt.Sprint(b.hour().Protocols); got != want {
			t.Errorf("the hour is %s\nwant %s", got, want)
		}
	}
	var got []string
	for _, f := range late.failures.list() {
		got = append(got, fmt.Sprintf("%d %s %q", f.ID, f.File, f.FileBytes))
	}
	if all := strings.Join(got, ", "); all != `4 late "", 3 new "", 2 older "", 1 `+"\ufffd<old> "+`"\xff<old>"` {
		t.Errorf("the failures are %s", all)
	}
}

// However often a server is reloaded, a board keeps an hour and a bounded number of failures, which
// fit through the line between the processes.
func TestHistoryBounded(t *testing.T) {
	b, _ := newBoard()
	b.init()
	long := strings.Repeat("\xff\x00", maxCause)
	for round := range 3 {
		for i := range maxFailures {
			b.Transfers.Begin(meter.Info{Protocol: meter.TFTP, User: long}).End(meter.End{Result: meter.Failed, File: fmt.Sprint(round, i, long), Err: errors.New(long)})
		}
		for i := range samples {
			b.series.add(day.Add(time.Duration(i)*sampleEvery), []sample{{1 << 62, 1 << 62, 1 << 62, 1 << 62, 1 << 62, 1 << 62}, {}})
			b.series.before = nil
		}
		text := b.History()
		if len(text) > handover.MaxHistory {
			t.Errorf("%d bytes", len(text))
		}
		next, _ := newBoard()
		if err := next.Remember(text); err != nil {
			t.Fatal(err)
		}
		b = next
	}
	list := b.failures.list()
	if n := len(b.hour().Protocols[0].Bytes); n != samples || len(list) != maxFailures || list[0].ID != 3*maxFailures || list[maxFailures-1].ID != 2*maxFailures+1 {
		t.Errorf("%d samples, %d failures from %d to %d", n, len(list), list[0].ID, list[len(list)-1].ID)
	}
	b.failures.add(Failure{File: "next"})
	if list := b.failures.list(); list[0].ID != 3*maxFailures+1 || list[1].ID != 3*maxFailures {
		t.Errorf("the next failure has number %d, behind %d", list[0].ID, list[1].ID)
	}
}

// A history of another version, or a damaged one, changes nothing.
func TestHistoryOfOthers(t *testing.T) {
	b, _ := newBoard()
	b.init()
	b.sample(day)
	b.failures.add(Failure{File: "own"})
	before := string(b.History())
	odd := history{Version: historyVersion, Hour: Series{Step: 5, Protocols: []ProtocolSeries{{Protocol: "tftp", Bytes: []int64{1}}}}}
	more := make([]int64, samples+1)
	long := history{Version: historyVersion, Hour: Series{Step: 5, Protocols: []ProtocolSeries{{Protocol: "tftp", Bytes: more, Live: more, Ended: more, Failed: more, Sent: more, Resent: more}}}}
	texts := []string{"", "nonsense", "{}", `{"version":2,"hour":{"step":5}}`, `{"version":1,"hour":{"step":1}}`}
	for _, h := range []history{odd, long} {
		text, err := json.Marshal(h)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	for _, text := range texts {
		if err := b.Remember([]byte(text)); err == nil {
			t.Errorf("%.200q is taken", text)
		}
	}
	if after := string(b.History()); after != before {
		t.Errorf("it has %s, and had %s", after, before)
	}
}
