package pipeline

import (
	"container/heap"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

var (
	simSeed  = flag.Uint64("seed", 0, "run this one seed of the simulation")
	simSeeds = flag.Int("seeds", 400, "how many seeds the simulation runs")
	simTrace = flag.Bool("trace", false, "print every simulated request and answer")
)

// A path is a simulated path to a server. All sessions share it.
type path struct {
	rate    int64         // bytes per second; 0 means no limit
	rtt     time.Duration // round trip
	jitter  time.Duration // upper bound of a random delay that is added in each direction
	service time.Duration // how long the server works on a request, one at a time on each session
	disk    time.Duration // maximum time that the driver takes for an answer, one at a time on each session
	opening int           // number of round trips that opening a session takes
	refuse  int           // maximum number of sessions that the server allows; 0 means any number
}

// A world is a link, its files and its server, in virtual time.
type world struct {
	rng  *rand.Rand
	path path
	base time.Time
	now  time.Time
	evs  eventHeap
	seq  int

	link     *Link
	sessions []*simSession
	files    []*simFile
	free     time.Time // when the bottleneck of the path becomes idle
	asking   time.Time // time for which the driver's timer is set

	peak      int64 // largest number of outstanding bytes so far
	most      int   // largest number of open sessions so far
	reopen    bool  // sessions that were lost are opened again
	sticky    bool  // the driver fills one session after the other, instead of all evenly
	problem   string
	onMoved   func(n int)
	events    int
	maxEvents int
}

// A simSession is a session of a world. Once it is lost, its answers do not arrive any more.
type simSession struct {
	up, opening bool
	dead        bool  // it looks open, but no answers arrive
	life        int   // how many times it was opened
	rate        int64 // its own rate in bytes per second; 0 means the rate of the path
	served      time.Time
	sent        time.Time
	taken       time.Time
}

// A simFile is a file on the server, and the plan that moves it.
type simFile struct {
	p    *Plan
	m    *model // nil in worlds too large to check every byte
	size int64  // size of the server's file in bytes

	most     int     // maximum number of bytes in an answer; 0 means any number
	short    float64 // probability of an answer that is shorter than the request, by a random length
	empty    float64 // probability of an answer without bytes
	failAt   []int64 // requests that contain one of these offsets fail
	refuseAt []int64 // the store refuses data that contains one of these offsets
	sink     *ring   // takes bytes in order; nil means that bytes are stored in any order
	done     time.Time
}

type event struct {
	at     time.Time
	seq    int
	run    func()
	remote bool // the event happens outside the driver, so drive is not called after it
}
type eventHeap []event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	return h[i].at.Before(h[j].at) || h[i].at.Equal(h[j].at) && h[i].seq < h[j].seq
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(x any)   { *h = append(*h, x.(event)) }
func (h *eventHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	*h = old[:len(old)-1]
	return e
}

func (w *world) at(t time.Time, run func()) {
	w.seq++
	heap.Push(&w.evs, event{at: t, seq: w.seq, run: run})
}

func (w *world) remotely(t time.Time, run func()) {
	w.seq++
	heap.Push(&w.evs, event{at: t, seq: w.seq, run: run, remote: true})
}

func (w *world) in(d time.Duration, run func()) { w.at(w.now.Add(d), run) }

func (w *world) fail(format string, args ...any) {
	if w.problem == "" {
		w.problem = fmt.Sprintf("after %v: ", w.now.Sub(w.base)) + fmt.Sprintf(format, args...)
	}
}

func (w *world) trace(format string, args ...any) {
	if *simTrace {
		fmt.Printf("%10v ", w.now.Sub(w.base))
		fmt.Printf(format+"\n", args...)
	}
}

// newWorld returns a world with one session, and no files.
func newWorld(p path, l Limits) *world {
	w := &world{path: p, link: NewLink(l), base: time.Unix(1_000_000, 0), maxEvents: 10_000_000}
	w.now = w.base
	w.sessions = []*simSession{{up: true}}
	w.most = 1
	return w
}

// oneWay returns how long a small packet takes.
func (w *world) oneWay() time.Duration {
	d := w.path.rtt / 2
	if w.path.jitter > 0 {
		d += time.Duration(w.rng.Int64N(int64(w.path.jitter)))
	}
	return d
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func transmission(n int, rate int64) time.Duration {
	if rate == 0 {
		return 0
	}
	return time.Duration(mulDiv(int64(n), int64(time.Second), rate))
}

// drive does what a driver does after each event.
func (w *world) drive() {
	var open []int
	for i := range w.sessions {
		if w.sessions[i].up {
			open = append(open, i)
		}
	}
	for w.fill(open) {
		// Repeat this: a session without room for a whole chunk may have room for the short request that
		// follows it.
	}
	w.peak = max(w.peak, w.link.bytes.out)
	want, wake := 1, time.Time{}
	for _, f := range w.files {
		if f.p.Done() {
			continue
		}
		want = max(want, f.p.Sessions())
		if d := f.p.Deadline(); d.After(w.now) && (wake.IsZero() || d.Before(wake)) {
			wake = d
		}
		if f.m != nil {
			f.m.checkBusy(open)
		}
	}
	if !wake.IsZero() && !wake.Equal(w.asking) {
		w.asking = wake
		w.at(wake, func() {})
	}
	w.openSessions(want)
	if len(open) > w.most {
		w.most = len(open)
	}
}

// fill sends all requests that can be sent, until Next has returned false for each session.
func (w *world) fill(open []int) (some bool) {
	if w.sticky {
		for _, session := range open {
			for w.ask(session) {
				some = true
			}
		}
		return some
	}
	// Always take the session with the fewest bytes outstanding, until Next returns false for it.
	for left := slices.Clone(open); len(left) > 0; {
		i := 0
		for n := range left {
			if w.link.sessions[left[n]] < w.link.sessions[left[i]] {
				i = n
			}
		}
		if w.ask(left[i]) {
			some = true
		} else {
			left = slices.Delete(left, i, i+1)
		}
	}
	return some
}

// ask sends one request of any file on a session.
func (w *world) ask(session int) bool {
	for _, f := range w.files {
		if r, ok := f.next(w.now, session); ok {
			w.trace("session %d asks for %+v, window %d", session, r, w.link.Window())
			w.send(f, session, r)
			return true
		}
	}
	return false
}

func (f *simFile) next(now time.Time, session int) (Request, bool) {
	if f.m != nil {
		return f.m.next(now, session)
	}
	return f.p.Next(now, session)
}

// openSessions opens sessions until `want` of them are open.
func (w *world) openSessions(want int) {
	have := 0
	for _, l := range w.sessions {
		if l.up || l.opening {
			have++
		}
	}
	for ; have < want; have++ {
		i := 0
		for i < len(w.sessions) && (w.sessions[i].up || w.sessions[i].opening || w.sessions[i].life > 0 && !w.reopen) {
			i++
		}
		if i >= MaxSessions {
			return
		}
		if i == len(w.sessions) {
			w.sessions = append(w.sessions, &simSession{})
		}
		l := w.sessions[i]
		l.opening = true
		w.in(time.Duration(w.path.opening)*w.path.rtt, func() {
			l.opening = false
			open := 0
			for _, o := range w.sessions {
				if o.up {
					open++
				}
			}
			if w.path.refuse > 0 && open >= w.path.refuse {
				w.trace("session %d is refused", i)
				w.link.LimitSessions(open)
				return
			}
			w.trace("session %d opens", i)
			l.up = true
			l.life++
		})
	}
}

// loseSession makes a session fail. All requests and answers that are on their way are lost.
func (w *world) loseSession(i int) {
	if i >= len(w.sessions) || !w.sessions[i].up {
		return
	}
	w.trace("session %d is lost", i)
	*w.sessions[i] = simSession{life: w.sessions[i].life + 1, rate: w.sessions[i].rate}
	for _, f := range w.files {
		if f.m != nil {
			f.m.lost(i)
		}
	}
	w.link.SessionLost(i)
	for _, l := range w.sessions {
		if l.up || l.opening {
			return
		}
	}
	// A driver that has no session left connects again, even if it does not replace single sessions.
	w.reopen = true
	w.openSessions(1)
}

// send sends a request to the server, and schedules the arrival of the answer at the driver.
func (w *world) send(f *simFile, session int, r Request) {
	l := w.sessions[session]
	life := l.life
	up := func() bool { return l.up && l.life == life && !l.dead }
	then := func(t time.Time, run func()) {
		w.remotely(t, func() {
			if up() {
				run()
			}
		})
	}
	then(w.now.Add(w.oneWay()), func() {
		l.served = later(w.now, l.served).Add(w.path.service)
		then(l.served, func() {
			answer := f.serve(w, r)
			n := max(answer, 0) + 13 // the header is sent even if there is no data
			l.sent = later(w.now, l.sent).Add(transmission(n, l.rate))
			then(l.sent, func() {
				w.free = later(w.now, w.free).Add(transmission(n, w.path.rate))
				then(w.free.Add(w.oneWay()), func() {
					late := time.Duration(0)
					if w.path.disk > 0 {
						late = time.Duration(w.rng.Int64N(int64(w.path.disk)))
					}
					l.taken = later(w.now, l.taken).Add(late)
					w.at(l.taken, func() {
						if up() {
							w.take(f, r, answer)
						}
					})
				})
			})
		})
	})
}

// serve returns these values for answers without data.
const (
	answerEOF   = -1
	answerError = -2
)

// serve returns the answer to a request.
func (f *simFile) serve(w *world, r Request) int {
	for _, at := range f.failAt {
		if r.Offset <= at && at < r.Offset+int64(r.Len) {
			return answerError
		}
	}
	if r.Offset >= f.size {
		return answerEOF
	}
	n := int(min(int64(r.Len), f.size-r.Offset))
	if f.most > 0 {
		n = min(n, f.most)
	}
	if f.short > 0 && w.rng.Float64() < f.short {
		n = 1 + w.rng.IntN(n)
	}
	if f.empty > 0 && w.rng.Float64() < f.empty {
		n = 0
	}
	return n
}

// take handles an answer as a driver does.
func (w *world) take(f *simFile, r Request, n int) {
	w.trace("%+v is answered by %d", r, n)
	if f.m == nil {
		if !f.p.Reply(w.now, r.ID, n) {
			w.fail("reply to %+v is not accepted", r)
		}
		if w.onMoved != nil {
			w.onMoved(n)
		}
		return
	}
	switch n {
	case answerEOF:
		f.m.eof(r.ID)
		return
	case answerError:
		f.m.failure(w.now, r.ID, false)
		return
	}
	for _, at := range f.refuseAt {
		if r.Offset <= at && at < r.Offset+int64(n) {
			f.m.failure(w.now, r.ID, true)
			return
		}
	}
	missing := f.m.store(r.ID, n)
	if f.sink != nil {
		f.sink.put(f.m, missing)
	}
	f.m.reply(w.now, r.ID, n)
	if f.sink != nil {
		f.sink.drain(f.m)
	}
}

// A ring is a sink that takes bytes in order, and keeps those that arrive early.
type ring struct {
	slots []int64 // the offset of the byte in each slot; -1 if the slot is empty
	next  int64
}

func newRing(span, at int64) *ring {
	r := &ring{slots: make([]int64, span), next: at}
	for i := range r.slots {
		r.slots[i] = -1
	}
	return r
}

func (r *ring) put(m *model, b Range) {
	for i := b.Start; i < b.End; i++ {
		s := &r.slots[i%int64(len(r.slots))]
		if *s != -1 {
			m.fail("byte %d would overwrite byte %d", i, *s)
		}
		*s = i
	}
}

func (r *ring) drain(m *model) {
	for ; r.next < m.p.Contiguous(); r.next++ {
		s := &r.slots[r.next%int64(len(r.slots))]
		if *s != r.next {
			m.fail("byte %d is not in its place, but %d", r.next, *s)
		}
		*s = -1
	}
}

// run runs the world until nothing more happens.
func (w *world) run() {
	w.drive()
	for w.evs.Len() > 0 && w.problem == "" {
		e := heap.Pop(&w.evs).(event)
		w.now = e.at
		e.run()
		if e.remote {
			continue
		}
		w.drive()
		for _, f := range w.files {
			if f.done.IsZero() && f.p.Done() {
				f.done = w.now
			}
		}
		w.check()
		if w.events++; w.events > w.maxEvents {
			w.fail("more than %d events", w.maxEvents)
		}
	}
}

// check checks all plans and the link.
func (w *world) check() {
	var plans []*model
	for _, f := range w.files {
		if f.m == nil {
			return
		}
		f.m.check()
		if f.m.problem != "" {
			w.fail("%s", f.m.problem)
		}
		plans = append(plans, f.m)
	}
	if problem := checkLink(w.link, plans); problem != "" {
		w.fail("%s", problem)
	}
}

// add adds a file to the world.
func (w *world) add(f *simFile, c Config, most int64) *simFile {
	c.Link = w.link
	f.m = newModel(c, most)
	f.p = f.m.p
	if c.Span > 0 {
		f.sink = newRing(c.Span, c.Offset)
		f.sink.drain(f.m) // take the bytes of an earlier run
	}
	w.files = append(w.files, f)
	return f
}
