package pipeline

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"
)

// A hand lets a test drive a plan step by step. Each step takes a millisecond.
type hand struct {
	t   *testing.T
	p   *Plan
	now time.Time
}

// newHand returns a plan with a large window, unless c has a link.
func newHand(t *testing.T, c Config) *hand {
	if c.Link == nil {
		c.Link = NewLink(Limits{SessionBytes: 1 << 20, MinBytes: 1 << 20})
	}
	return &hand{t: t, p: New(c), now: time.Unix(1_000_000, 0)}
}

// all returns all requests that Next returns for a session.
func (h *hand) all(session int) (rs []Request) {
	for {
		r, ok := h.p.Next(h.now, session)
		if !ok {
			return rs
		}
		rs = append(rs, r)
	}
}

// want checks that Next returns requests for exactly these ranges on a session, and returns their ids.
func (h *hand) want(session int, want ...Range) (ids []uint32) {
	h.t.Helper()
	var got []Range
	for _, r := range h.all(session) {
		got = append(got, Range{r.Offset, r.Offset + int64(r.Len)})
		ids = append(ids, r.ID)
	}
	if !slices.Equal(got, want) {
		h.t.Fatalf("asked for %v, want %v", got, want)
	}
	return ids
}

func (h *hand) ok(ok bool) {
	h.t.Helper()
	if !ok {
		h.t.Fatal("an answer is not accepted")
	}
}

// tick lets a millisecond pass.
func (h *hand) tick() time.Time {
	h.now = h.now.Add(time.Millisecond)
	return h.now
}

func (h *hand) reply(id uint32, n int)      { h.t.Helper(); h.ok(h.p.Reply(h.tick(), id, n)) }
func (h *hand) eof(id uint32)               { h.t.Helper(); h.tick(); h.ok(h.p.EOF(id)) }
func (h *hand) failed(id uint32, err error) { h.t.Helper(); h.ok(h.p.Failed(h.tick(), id, err)) }

// state checks the state that a plan reports.
func (h *hand) state(contiguous int64, outstanding int, done bool) {
	h.t.Helper()
	if h.p.Contiguous() != contiguous || h.p.Outstanding() != outstanding || h.p.Done() != done {
		h.t.Fatalf("contiguous %d, outstanding %d, done %v; want %d, %d, %v",
			h.p.Contiguous(), h.p.Outstanding(), h.p.Done(), contiguous, outstanding, done)
	}
}

func TestEmptyFiles(t *testing.T) {
	h := newHand(t, Config{Size: 0})
	h.want(0)
	h.state(0, 0, true)
	h = newHand(t, Config{Offset: 7, Size: 0})
	h.state(7, 0, true)
	if end, ok := h.p.End(); end != 7 || !ok {
		t.Errorf("end %d, %v", end, ok)
	}
	// A file whose size is 0 according to stat may have content, as in /proc.
	h = newHand(t, Config{Size: 0, UntilEOF: true, Chunk: 10})
	h.state(0, 0, false)
	h.reply(h.want(0, Range{0, 10})[0], 10)
	h.reply(h.want(0, Range{10, 20})[0], 4)
	h.eof(h.want(0, Range{14, 24})[0])
	h.state(14, 0, true)
}

func TestOutOfOrder(t *testing.T) {
	h := newHand(t, Config{Offset: 100, Size: 35, Chunk: 10})
	ids := h.want(0, Range{100, 110}, Range{110, 120}, Range{120, 130}, Range{130, 135})
	h.reply(ids[2], 10)
	h.reply(ids[1], 10)
	h.state(100, 2, false)
	h.reply(ids[0], 10)
	h.state(130, 1, false)
	h.reply(ids[3], 5)
	h.state(135, 0, true)
	if st := h.p.Stats(); st != (Stats{Requests: 4, Moved: 35}) {
		t.Errorf("%+v", st)
	}
}

// After a short answer, the rest is requested with a new id, before bytes that were not requested
// yet.
func TestShort(t *testing.T) {
	h := newHand(t, Config{Size: 60, Chunk: 10, Link: NewLink(Limits{SessionBytes: 20})})
	ids := h.want(0, Range{0, 10}, Range{10, 20})
	h.reply(ids[0], 3)
	h.state(3, 1, false)
	again := h.want(0, Range{3, 10})
	if again[0] == ids[0] {
		t.Errorf("id %d twice", again[0])
	}
	h.reply(ids[1], 10)
	h.reply(h.want(0, Range{20, 30})[0], 9)
	// Two missing ranges that are adjacent become one request.
	h.want(0, Range{29, 39})
	h.state(3, 2, false)
}

// If the server's answers to all requests are short, further requests are smaller.
func TestServerCap(t *testing.T) {
	const most, size = 32 << 10, 64 << 20
	w := newWorld(path{rtt: 10 * time.Millisecond, rate: gigabit}, Limits{Sessions: 1})
	f := &simFile{p: New(Config{Link: w.link, Size: size, Chunk: sshChunk}), size: size, most: most}
	w.files = append(w.files, f)
	w.run()
	st := f.p.Stats()
	if w.problem != "" || !f.p.Done() || f.p.Chunk() != most {
		t.Fatalf("%s: done %v, chunk %d", w.problem, f.p.Done(), f.p.Chunk())
	}
	if st.Requests > size/most+3*DefaultMinBytes/sshChunk || st.Duplicate > 0 {
		t.Errorf("%+v", st)
	}
	// They also become smaller if each third request is for the rest of another one, and gets a
	// complete answer.
	h := newHand(t, Config{Size: 1 << 20, Chunk: 10_000, Link: NewLink(Limits{SessionBytes: 20_000})})
	sent := h.all(0)
	for range 8 {
		slices.SortFunc(sent, func(a, b Request) int { return int(a.Offset - b.Offset) })
		h.reply(sent[0].ID, min(sent[0].Len, 4000))
		sent = append(sent[1:], h.all(0)...)
	}
	if h.p.Chunk() != 4000 {
		t.Errorf("chunk %d", h.p.Chunk())
	}
	// If only some answers are short, the requests keep their size. No request becomes smaller than
	// minChunk.
	h = newHand(t, Config{Size: 1 << 20, Chunk: 10_000})
	ids := h.all(0)
	for i, id := range ids[:len(ids)-1] {
		h.reply(id.ID, 10_000-i%3)
	}
	if h.p.Chunk() != 10_000 {
		t.Errorf("chunk %d", h.p.Chunk())
	}
	h = newHand(t, Config{Size: 1 << 20, Chunk: 10_000})
	for _, r := range h.all(0) {
		h.reply(r.ID, 1)
	}
	if h.p.Chunk() != minChunk {
		t.Errorf("chunk %d", h.p.Chunk())
	}
}

func TestNoProgress(t *testing.T) {
	h := newHand(t, Config{Size: 30, Chunk: 10})
	ids := h.want(0, Range{0, 10}, Range{10, 20}, Range{20, 30})
	h.reply(ids[0], 10)
	h.reply(ids[2], 10)
	for range maxEmpty - 1 {
		h.reply(ids[1], 0)
		h.state(10, 0, false)
		ids[1] = h.want(0, Range{10, 20})[0]
	}
	h.reply(ids[1], 0)
	h.state(10, 0, true)
	if remote, local := h.p.Err(); remote != ErrNoProgress || local != nil {
		t.Errorf("%v, %v", remote, local)
	}
	// A single byte after empty answers counts as progress, so the plan does not fail.
	h = newHand(t, Config{Size: 30, Chunk: 30})
	for i := range int64(30) {
		h.reply(h.want(0, Range{i, 30})[0], 0)
		h.reply(h.want(0, Range{i, 30})[0], 0)
		h.reply(h.want(0, Range{i, 30})[0], 1)
	}
	h.state(30, 0, true)
	// Empty answers are counted separately for each range.
	h = newHand(t, Config{Size: 30, Chunk: 10, Link: NewLink(Limits{SessionBytes: 10})})
	h.reply(h.want(0, Range{0, 10})[0], 0)
	h.reply(h.want(0, Range{0, 10})[0], 0)
	h.reply(h.want(0, Range{0, 10})[0], 10)
	h.reply(h.want(0, Range{10, 20})[0], 0)
	h.reply(h.want(0, Range{10, 20})[0], 10)
	h.state(20, 0, false)
}

func TestEndOfFile(t *testing.T) {
	h := newHand(t, Config{Size: -1, Chunk: 10, Link: NewLink(Limits{SessionBytes: 60})})
	ids := h.want(0, Range{0, 10}, Range{10, 20}, Range{20, 30}, Range{30, 40}, Range{40, 50}, Range{50, 60})
	if _, ok := h.p.End(); ok {
		t.Error("the end is known from the start")
	}
	h.reply(ids[0], 10)
	h.eof(ids[4])
	if end, ok := h.p.End(); end != 40 || !ok {
		t.Errorf("end %d, %v", end, ok)
	}
	h.want(0)
	h.eof(ids[2]) // the file shrinks
	h.state(10, 3, false)
	h.reply(ids[3], 10) // the range is beyond the end, so it does not matter
	h.failed(ids[5], errors.New("nor how it is answered"))
	h.reply(ids[1], 10)
	h.state(20, 0, true)
	if remote, local := h.p.Err(); remote != nil || local != nil {
		t.Errorf("%v, %v", remote, local)
	}
	if st := h.p.Stats(); st.Moved != 20 || st.Duplicate != 10 {
		t.Errorf("%+v", st)
	}
}

// After the size that stat returned, only one request is outstanding at a time.
func TestBehindExpectedEnd(t *testing.T) {
	h := newHand(t, Config{Size: 25, UntilEOF: true, Chunk: 10})
	ids := h.want(0, Range{0, 10}, Range{10, 20}, Range{20, 25}, Range{25, 35})
	h.reply(ids[0], 10)
	h.want(0)
	h.reply(ids[3], 10) // the file has grown
	next := h.want(0, Range{35, 45})
	h.eof(next[0])
	h.want(0)
	h.reply(ids[2], 5)
	h.reply(ids[1], 10)
	h.state(35, 0, true)
}

// A file may be shorter than expected: the first end of file that the server reports counts.
func TestSmallerThanExpected(t *testing.T) {
	h := newHand(t, Config{Size: 40, Chunk: 10})
	ids := h.want(0, Range{0, 10}, Range{10, 20}, Range{20, 30}, Range{30, 40})
	h.eof(ids[3])
	h.reply(ids[0], 10)
	h.reply(ids[1], 4)
	h.eof(h.want(0, Range{14, 20})[0])
	h.eof(ids[2])
	h.state(14, 0, true)
}

func TestSpan(t *testing.T) {
	h := newHand(t, Config{Size: 100, Chunk: 10, Span: 25})
	ids := h.want(0, Range{0, 10}, Range{10, 20})
	h.reply(ids[1], 10)
	h.want(0) // byte 0 is still missing
	h.reply(ids[0], 2)
	h.want(0, Range{2, 10})
	if h = newHand(t, Config{Size: 100, Chunk: 10, Span: 4}); h.p.Chunk() != 4 {
		t.Errorf("chunk %d is more than the span", h.p.Chunk())
	}
}

// A writer moves the limit as it gets bytes. While any request is outstanding, further requests have
// the size of a chunk. A shorter request is sent when no request is outstanding, or after Flush.
func TestLimit(t *testing.T) {
	h := newHand(t, Config{Size: -1, Chunk: 10})
	h.p.Limit(0)
	h.want(0)
	h.p.Limit(3)
	ids := h.want(0, Range{0, 3})
	h.p.Limit(8)
	h.want(0)
	h.p.Limit(26)
	more := h.want(0, Range{3, 13}, Range{13, 23})
	h.reply(ids[0], 3)
	h.want(0)
	h.p.Flush()
	last := h.want(0, Range{23, 26})
	h.p.Limit(28)
	h.want(0)
	h.p.EndAt(28) // as when a writer is closed
	h.reply(h.want(0, Range{26, 28})[0], 2)
	h.reply(more[0], 10)
	h.reply(more[1], 10)
	h.reply(last[0], 3)
	h.state(28, 0, true)
}

func TestEndAt(t *testing.T) {
	h := newHand(t, Config{Size: 100, Chunk: 10, Link: NewLink(Limits{SessionBytes: 50})})
	ids := h.want(0, Range{0, 10}, Range{10, 20}, Range{20, 30}, Range{30, 40}, Range{40, 50})
	h.reply(ids[0], 10)
	h.reply(ids[3], 10)
	h.p.EndAt(25) // in the middle of a request
	if got, _ := h.p.Link().Find(ids[2]); got.Missing != (Range{20, 25}) {
		t.Errorf("missing %v", got.Missing)
	}
	if got, ok := h.p.Link().Find(ids[4]); got.Missing != (Range{}) || !ok {
		t.Errorf("missing %v, %v", got.Missing, ok)
	}
	h.p.EndAt(60) // the end never moves up
	h.reply(ids[2], 10)
	h.reply(ids[1], 10)
	h.state(25, 1, true)
	h.reply(ids[4], 10)
	h.state(25, 0, true)
	h.p.EndAt(3) // nor below the bytes that have moved
	h.state(25, 0, true)
}

// Extreme numbers work.
func TestExtremes(t *testing.T) {
	h := newHand(t, Config{Offset: math.MaxInt64 - 15, Size: 15, Chunk: 10})
	h.want(0, Range{math.MaxInt64 - 15, math.MaxInt64 - 5}, Range{math.MaxInt64 - 5, math.MaxInt64})
	h = newHand(t, Config{Offset: math.MaxInt64 - 15, Size: 100, Chunk: 10, Span: math.MaxInt64})
	h.want(0, Range{math.MaxInt64 - 15, math.MaxInt64 - 5}, Range{math.MaxInt64 - 5, math.MaxInt64})
	h = newHand(t, Config{Offset: -7, Size: 5, Chunk: -1})
	h.want(0, Range{0, 5})
	h.want(-1)
	h.want(MaxSessions)
	if h = newHand(t, Config{Size: 1 << 40, Chunk: math.MaxInt}); h.p.Chunk() != 1<<20 {
		t.Errorf("chunk %d is more than a session holds", h.p.Chunk())
	}
	if p := New(Config{Size: 1, Chunk: 100, Link: NewLink(Limits{MaxBytes: 10})}); p.Chunk() != 10 {
		t.Errorf("chunk %d is more than the ceiling", p.Chunk())
	}
	if p := New(Config{}); !p.Done() || p.Chunk() != DefaultChunk || p.Link().Window() != DefaultMinBytes {
		t.Errorf("%+v", p)
	}
}

// An id that was answered does not match a later request in the same slot, and an id of one plan
// does not match a request of another.
func TestIDs(t *testing.T) {
	k := NewLink(Limits{})
	h := newHand(t, Config{Link: k, Size: -1, Chunk: 10})
	other := newHand(t, Config{Link: k, Size: 10, Chunk: 10})
	theirs := other.want(0, Range{0, 10})[0]
	if h.p.Reply(h.now, theirs, 10) || h.p.EOF(theirs) || h.p.Failed(h.now, theirs, nil) {
		t.Error("the answer to another plan is accepted")
	}
	if got, ok := k.Find(theirs); !ok || got.Plan != other.p {
		t.Errorf("%+v, %v", got, ok)
	}
	h.p.Limit(10)
	seen := map[uint32]bool{theirs: true}
	for i := range int64(1000) {
		h.p.Limit(10 * (i + 1))
		id := h.want(0, Range{10 * i, 10 * (i + 1)})[0]
		if seen[id] || id>>31 != 0 {
			t.Fatalf("id %d, used %v", id, seen[id])
		}
		seen[id] = true
		h.reply(id, 10)
		if _, ok := k.Find(id); ok || h.p.Reply(h.now, id, 10) {
			t.Fatal("an answer twice")
		}
	}
	table := newTable[int]()
	for range 3 << generationBits {
		index, id := table.add(7)
		if id>>31 != 0 || table.find(id) != index || *table.at(index) != 7 {
			t.Fatalf("id %x, slot %d", id, index)
		}
		table.remove(index)
	}
}

func TestBounds(t *testing.T) {
	k := NewLink(Limits{SessionBytes: 1 << 30, MinBytes: 1 << 30, MaxBytes: 1 << 30, Sessions: 1000})
	h := newHand(t, Config{Link: k, Size: 1 << 40, Chunk: 1})
	if got := len(h.all(0)); got != MaxOutstanding {
		t.Errorf("%d requests outstanding, want %d", got, MaxOutstanding)
	}
	if k.most != MaxSessions {
		t.Errorf("%d sessions", k.most)
	}
	k.LimitSessions(3)
	k.LimitSessions(5)
	if k.most != 3 {
		t.Errorf("%d sessions", k.most)
	}
	k.LimitSessions(-1)
	if n := k.sessionsFor(noEnd); n != 1 {
		t.Errorf("%d sessions", n)
	}
}

// A server makes a plan use the most memory if it answers the last request first, and each request
// with fewer bytes than the one before. The memory is bounded even then.
func TestHostileShortAnswers(t *testing.T) {
	k := NewLink(Limits{SessionBytes: 1 << 30, MinBytes: 1 << 30, MaxBytes: 1 << 30})
	h := newHand(t, Config{Link: k, Size: 1 << 40, Chunk: 1 << 18})
	h.p.shrinkTo = 1
	for round := range 40 {
		all := h.all(0)
		if len(all) == 0 {
			break
		}
		slices.Reverse(all)
		for _, r := range all {
			h.reply(r.ID, max(r.Len/(2+round%3), 1))
			if h.p.pieces.count > maxPieces || len(h.p.pieces.all) > maxPieces+1 {
				t.Fatalf("%d pieces", h.p.pieces.count)
			}
		}
	}
	t.Logf("at most %d pieces", len(h.p.pieces.all))
}

// If the end of a file is unknown, Left depends on how many bytes have moved.
func TestLeft(t *testing.T) {
	now := time.Unix(0, 0)
	for _, test := range []struct {
		name         string
		size         int64
		begin, after int64
	}{
		{"known", 100 << 10, 100 << 10, 68 << 10},
		{"not known", -1, 0, 32 << 10},
	} {
		p := New(Config{Link: NewLink(Limits{}), Offset: 1000, Size: test.size, Chunk: 32 << 10})
		if got := p.Left(); got != test.begin {
			t.Errorf("%s: %d bytes are left in the beginning, want %d", test.name, got, test.begin)
		}
		r, ok := p.Next(now, 0)
		if !ok || !p.Reply(now.Add(time.Second), r.ID, r.Len) {
			t.Fatal("no request, or no answer to it")
		}
		if got := p.Left(); got != test.after {
			t.Errorf("%s: %d bytes are left after one answer, want %d", test.name, got, test.after)
		}
	}
}

// Held requests are writes that wait for their data, and reads whose data waits to be stored. They
// count as outstanding, and use room in the window. But they do not prevent one other request, because
// they may be waiting for its answer.
func TestHeldRequestsLetOneThrough(t *testing.T) {
	const chunk = 100
	link := NewLink(Limits{SessionBytes: 2 * chunk, MinBytes: 2 * chunk, MaxBytes: 2 * chunk})
	writes := newHand(t, Config{Link: link, Size: 10 * chunk, Chunk: chunk, Held: true})
	reads := newHand(t, Config{Link: link, Size: 10 * chunk, Chunk: chunk})
	held := writes.want(0, Range{0, 100}, Range{100, 200})
	one := reads.want(0, Range{0, 100})
	writes.want(0)
	reads.ok(reads.p.Reply(reads.tick(), one[0], chunk))
	two := reads.want(0, Range{100, 200})
	reads.ok(reads.p.Reply(reads.tick(), two[0], chunk))

	link.Sent(held[0])
	link.Sent(held[0]) // calling it again changes nothing
	link.Sent(12345)
	reads.want(0)
	writes.ok(writes.p.Reply(writes.tick(), held[0], chunk))
	three := reads.want(0, Range{200, 300})

	others := newHand(t, Config{Link: link, Size: chunk, Chunk: chunk})
	others.want(0)
	link.Hold(three[0])
	reads.want(0) // no more than that: otherwise, with a slow writer, the whole file would be in memory
	link.Hold(three[0])
	link.Hold(12345)
	others.want(0, Range{0, 100})
	link.SessionLost(0)
	if link.heldBytes != 0 || link.Outstanding(0) != 0 {
		t.Errorf("%d bytes are held, and %d outstanding, on a session that is lost", link.heldBytes, link.Outstanding(0))
	}
	writes.want(0, Range{100, 200}, Range{200, 300})
}

// A late request is not repeated on another session if its answer has arrived and only waits to be
// stored.
func TestHeldIsNotRepeated(t *testing.T) {
	for _, here := range []bool{false, true} {
		k := NewLink(Limits{SessionBytes: 100})
		h := newHand(t, Config{Link: k, Size: 20, Chunk: 10, Repeat: true})
		a := h.want(0, Range{0, 10}, Range{10, 20})
		h.want(1)
		h.reply(a[0], 10)
		h.now = h.p.Deadline()
		if here {
			k.Hold(a[1])
			h.want(1)
		} else {
			h.want(1, Range{10, 20})
		}
	}
}
