package pipeline

import (
	"errors"
	"testing"
)

func TestFirstErrorByOffset(t *testing.T) {
	late, early, disk := errors.New("late"), errors.New("early"), errors.New("disk")
	h := newHand(t, Config{Size: 100, Chunk: 10})
	ids := make([]uint32, 10)
	for i, r := range h.all(0) {
		ids[i] = r.ID
	}
	h.reply(ids[0], 10)
	h.failed(ids[7], late)
	if h.p.Done() {
		t.Error("done with requests outstanding")
	}
	h.ok(h.p.LocalFailed(ids[8], disk))
	h.failed(ids[4], early)
	h.failed(ids[5], late)
	h.reply(ids[1], 4) // the rest is not requested, because the plan has failed
	h.want(0)
	h.want(1)
	for _, id := range []uint32{ids[2], ids[3], ids[6], ids[9]} {
		h.reply(id, 10)
	}
	h.state(14, 0, true)
	if remote, local := h.p.Err(); remote != early || local != disk {
		t.Errorf("%v, %v", remote, local)
	}
}

// Errors of reads after the end of the file are ignored, because some servers answer such reads with
// an error.
func TestErrorBehindTheEnd(t *testing.T) {
	h := newHand(t, Config{Size: -1, Chunk: 10, Link: NewLink(Limits{SessionBytes: 30})})
	ids := h.want(0, Range{0, 10}, Range{10, 20}, Range{20, 30})
	h.failed(ids[2], errors.New("beyond"))
	h.reply(ids[0], 5)
	h.want(0)
	h.eof(ids[1])
	h.reply(h.want(0, Range{5, 10})[0], 5)
	h.state(10, 0, true)
	if remote, local := h.p.Err(); remote != nil || local != nil {
		t.Errorf("%v, %v", remote, local)
	}
}

func TestStop(t *testing.T) {
	canceled := errors.New("canceled")
	h := newHand(t, Config{Size: 100, Chunk: 10})
	ids := h.all(0)
	h.p.Stop(canceled)
	h.want(0)
	h.state(0, 10, false)
	for _, r := range ids[:9] {
		h.reply(r.ID, r.Len)
	}
	h.p.Link().SessionLost(0) // nothing is requested again
	h.state(90, 0, true)
	if remote, local := h.p.Err(); remote != nil || local != canceled {
		t.Errorf("%v, %v", remote, local)
	}
	h = newHand(t, Config{Size: 100})
	h.p.Stop(nil)
	if _, local := h.p.Err(); local == nil || !h.p.Done() {
		t.Error("a plan stopped for no reason continues")
	}
}

func TestSessionLost(t *testing.T) {
	k := NewLink(Limits{SessionBytes: 20, MinBytes: 1000})
	h := newHand(t, Config{Link: k, Size: 60, Chunk: 10})
	a := h.want(0, Range{0, 10}, Range{10, 20})
	b := h.want(1, Range{20, 30}, Range{30, 40})
	c := h.want(2, Range{40, 50}, Range{50, 60})
	h.reply(b[0], 10)
	k.SessionLost(0)
	k.SessionLost(0)
	k.SessionLost(-1)
	k.SessionLost(MaxSessions)
	if h.p.Reply(h.now, a[0], 10) || k.Outstanding(0) != 0 {
		t.Error("a session is lost, and its answers are not")
	}
	h.state(0, 3, false)
	d := h.want(1, Range{0, 10})
	k.SessionLost(1)
	e := h.want(0, Range{0, 10}, Range{10, 20}) // a new session with the same number
	h.want(1, Range{30, 40})
	for _, id := range append(e, c...) {
		h.reply(id, 10)
	}
	if h.p.Reply(h.now, d[0], 10) {
		t.Error("an answer of a lost session is accepted")
	}
	h.state(30, 1, false)
	if st := h.p.Stats(); st.Lost != 4 {
		t.Errorf("%+v", st)
	}
}

// Two sessions may request the same range. The first answer counts, even if it is short. An error on
// one session, or its loss, does not count.
func TestRepeat(t *testing.T) {
	begin := func() (*hand, *Link, uint32, uint32) {
		k := NewLink(Limits{SessionBytes: 100})
		h := newHand(t, Config{Link: k, Size: 20, Chunk: 10, Repeat: true})
		a := h.want(0, Range{0, 10}, Range{10, 20})
		h.want(1)
		h.reply(a[0], 10)
		if d := h.p.Deadline(); d.Sub(h.now) <= 0 {
			t.Fatalf("late at %v, and it is %v", d, h.now)
		} else {
			h.now = d
		}
		h.want(0) // the late request is on the same session, so it is not repeated
		b := h.want(1, Range{10, 20})
		h.want(1)
		if !h.p.Deadline().IsZero() {
			t.Error("a third request for one range")
		}
		h.state(10, 2, false)
		return h, k, a[1], b[0]
	}
	h, k, slow, fast := begin()
	h.reply(fast, 10)
	h.state(20, 1, true)
	if got, ok := k.Find(slow); !ok || got.Missing != (Range{}) {
		t.Errorf("%+v, %v", got, ok)
	}
	h.reply(slow, 10)
	h.state(20, 0, true)
	if st := h.p.Stats(); st.Duplicate != 10 || st.Moved != 20 || st.Repeats != 1 {
		t.Errorf("%+v", st)
	}

	h, _, slow, fast = begin()
	h.reply(fast, 4)
	h.reply(slow, 2)
	if st := h.p.Stats(); st.Duplicate != 2 || st.Moved != 14 {
		t.Errorf("after 4 and 2 bytes of one range: %+v", st)
	}

	h, k, slow, fast = begin()
	h.reply(fast, 4)
	if got, _ := k.Find(slow); got.Missing != (Range{14, 20}) {
		t.Errorf("%+v", got)
	}
	h.reply(slow, 7)
	h.state(17, 0, false)
	h.reply(h.want(0, Range{17, 20})[0], 3)
	h.state(20, 0, true)

	h, _, slow, fast = begin()
	h.failed(fast, errors.New("bad handle"))
	h.reply(slow, 10)
	h.state(20, 0, true)
	if remote, _ := h.p.Err(); remote != nil {
		t.Error(remote)
	}

	h, k, _, fast = begin()
	k.SessionLost(0)
	if !h.p.Deadline().IsZero() {
		t.Error("a deadline without a session that could do anything")
	}
	h.want(2) // the other request is still outstanding
	h.eof(fast)
	h.state(10, 0, true)
}
