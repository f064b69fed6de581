package sftp

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/internal/sshconn"
)

// Data that a peer has sent and that was not yet read is bounded by the windows of its
// channels, but only in bytes of data: x/crypto keeps each packet as it
// came, and one that carries a single byte costs it some fifty, and 36 on the
// wire. So bytes are counted on the wire too.
const (
	// quotaSlack is how many bytes of the wire may wait in all beyond the
	// windows of the channels that are open. With a kilobyte in a packet, all
	// windows full need a twentieth of their size more.
	quotaSlack = 4 << 20

	// quotaStep is how many bytes come between two checks.
	quotaStep = 1 << 20

	// tryTime is how long a write may take that shows whether writes go through.
	// Meanwhile nothing is read.
	tryTime = 10 * time.Second

	// maxMoved is how many bytes of a channel are moved to memory. The client gets as much
	// more of its window: a channel holds at most its window and this.
	maxMoved = channelWindow

	// maxBeforeLogin is how many bytes a peer may send until it has logged in:
	// some dozens of keys, or signatures.
	maxBeforeLogin = 256 << 10
)

var (
	errTalkative = errors.New("too much came before the login")
	errFlood     = errors.New("requests come that are too many to be kept, and their answers are not taken")
)

// A receiveQuota counts what has come on a connection, and what of it was taken by
// those it was for. It ends the connection when too much lies in between.
//
// How much lies in between for one channel is not known: x/crypto does not say. It
// is at most what has come on the whole connection, and was not taken, since a
// moment at which there was nothing for the channel. Such moments are: when less
// was read than there was room for; and, whatever has been read since, when as
// much as the window holds has been.
type receiveQuota struct {
	came  atomic.Int64 // bytes of the wire
	known atomic.Bool  // the login has succeeded
	wrote atomic.Int64 // writes that have gone through

	stop func(error)  // ends the connection
	run  func(func()) // has something done by another goroutine
	poke func()       // writes something that means nothing; set before there are channels

	windows *wideWindows // of all connections

	looked, lookedWrote int64 // reader of the wire only: when it last looked

	mu     sync.Mutex
	taken  int64               // mu: bytes of data
	queues map[*queue]struct{} // mu
	wide   *queue              // mu: the one with a wide window; nil if none has
	fixed  bool                // mu: no channel can have one
	trying chan struct{}       // mu: closed when a write has gone through; nil if none is tried
}

// A countedConn is a connection whose reader is counted.
type countedConn struct {
	*sshconn.Conn
	quota *receiveQuota
}

func (c countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if over := c.quota.count(n); over != nil {
		return 0, over // until the connection is closed more would come
	}
	return n, err
}

func (c countedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.quota.wrote.Add(1)
	return n, err
}

// count counts n bytes that have come. It returns why the connection ends, if it does.
func (r *receiveQuota) count(n int) error {
	came := r.came.Add(int64(n))
	switch {
	case !r.known.Load():
		if came > maxBeforeLogin {
			r.stop(errTalkative)
			return errTalkative
		}
	case came-r.looked >= quotaStep:
		r.looked = came
		return r.look()
	}
	return nil
}

// excess is how many bytes of the wire have come that were not taken, or were
// not data. The caller holds mu.
func (r *receiveQuota) excess() int64 { return r.came.Load() - r.taken }

// take counts n bytes of data that were taken by a reader that never stops.
func (r *receiveQuota) take(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken += int64(n)
}

// look looks for channels for which too much has come. It returns why the connection
// ends, if it does. Before it ends because of a reader that waits, a write is tried, and
// nothing more is read until that has gone through: on a busy machine it may be late.
func (r *receiveQuota) look() error {
	tried, err := r.judge()
	if tried == nil {
		return err
	}
	timer := time.NewTimer(tryTime)
	defer timer.Stop()
	select {
	case <-tried:
		if tried, err = r.judge(); tried == nil {
			return err
		}
	case <-timer.C:
	}
	r.stop(errFlood)
	return errFlood
}

// judge checks each channel. If the verdict depends on a write that is being tried,
// tried is closed when that has gone through.
func (r *receiveQuota) judge() (tried <-chan struct{}, err error) {
	wrote := r.wrote.Load()
	moves := wrote != r.lookedWrote
	r.lookedWrote = wrote
	r.mu.Lock()
	defer r.mu.Unlock()
	most := int64(quotaSlack)
	for q := range r.queues {
		most += q.window
	}
	for q := range r.queues {
		over := r.excess() - q.base - most
		switch {
		// A reader that waits has nothing, if it waits for data. After a read,
		// x/crypto gives the peer window, which may wait too, for a peer that takes
		// nothing or leaves a key exchange undone; but then nothing at all is written.
		case q.waits && moves:
			q.empty(r.excess())
		case over <= 0:
		case len(q.buffered) == maxMoved, over >= quotaSlack && !q.waits:
			r.stop(errFlood)
			return nil, errFlood
		case q.waits: // perhaps there was only nothing to be written
			if r.trying == nil {
				r.trying = make(chan struct{})
				r.run(r.tryWrite)
			}
			if over >= quotaSlack {
				tried = r.trying
			}
		case !q.moving:
			q.moving = true
			r.run(q.move)
		}
	}
	return tried, nil
}

// tryWrite writes something. If that goes through, the next look sees it.
func (r *receiveQuota) tryWrite() {
	r.poke()
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.trying)
	r.trying = nil
}

// A queue is what has come for one channel. Its reader is the session of the
// channel, and as long as that does something else, the quota may move what
// there is to memory of the queue's own, where tiny packets become few bytes.
type queue struct {
	quota *receiveQuota
	ch    io.Reader

	reading  sync.Mutex // held while something is read from ch, and before the quota's mu
	buffered []byte     // reading and quota.mu, to change it: what was moved
	err      error      // reading: what came at the end of that

	window  int64 // quota.mu: bytes of data that the channel holds
	base    int64 // quota.mu: excess when the channel was known to be empty
	mark    int64 // quota.mu: excess when so many bytes had been taken from the channel:
	marked  int64 // quota.mu
	taken   int64 // quota.mu: bytes taken from the channel in all
	emptied int   // quota.mu: how often that was known
	waits   bool  // quota.mu: a read is under way
	moving  bool  // quota.mu
}

// open begins to count for a channel.
func (r *receiveQuota) open(ch io.Reader) *queue {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.queues == nil {
		r.queues = map[*queue]struct{}{}
	}
	q := &queue{quota: r, ch: ch, window: channelWindow}
	q.empty(r.excess())
	r.queues[q] = struct{}{}
	return q
}

// close ends that.
func (r *receiveQuota) close(q *queue) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.queues, q)
	q.narrow()
}

// empty notes that the channel was empty at that excess. The caller holds quota.mu.
func (q *queue) empty(excess int64) {
	q.base, q.mark, q.marked = excess, excess, q.taken
	q.emptied++
}

// Read reads what was moved, or else from the channel.
func (q *queue) Read(p []byte) (int, error) {
	q.reading.Lock()
	defer q.reading.Unlock()
	if len(q.buffered) == 0 {
		if q.err != nil {
			return 0, q.err
		}
		return q.read(p)
	}
	q.quota.mu.Lock()
	defer q.quota.mu.Unlock()
	n := copy(p, q.buffered)
	if q.buffered = q.buffered[n:]; len(q.buffered) == 0 {
		q.buffered = nil
	}
	return n, nil
}

// read reads from the channel. The caller holds reading.
func (q *queue) read(p []byte) (int, error) {
	quota := q.quota
	quota.mu.Lock()
	before, emptied := quota.excess(), q.emptied
	q.waits = true
	quota.mu.Unlock()
	n, err := q.ch.Read(p)
	quota.mu.Lock()
	defer quota.mu.Unlock()
	q.waits = false
	quota.taken += int64(n)
	q.taken += int64(n)
	switch {
	case n < len(p):
		if emptied == q.emptied { // or it is known of a later moment
			q.empty(before)
		}
	case q.taken-q.marked >= q.window:
		q.base = q.mark
		q.mark, q.marked = quota.excess(), q.taken
	}
	q.widen()
	return n, err
}

// move moves what the channel holds, if it holds something, or else what comes
// next.
func (q *queue) move() {
	q.reading.Lock()
	defer q.reading.Unlock()
	defer func() {
		q.quota.mu.Lock()
		defer q.quota.mu.Unlock()
		q.moving = false
	}()
	if q.err != nil {
		return
	}
	memory := make([]byte, maxMoved)
	n := copy(memory, q.buffered)
	m, err := q.read(memory[n:])
	q.err = err
	q.quota.mu.Lock()
	defer q.quota.mu.Unlock()
	if q.buffered = memory[:n+m]; n+m == 0 {
		q.buffered = nil
	}
}
