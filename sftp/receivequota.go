package sftp

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/internal/sshconn"
)

// The windows of a connection's channels bound how much data a peer can send before the server has
// read it. But windows count only bytes of data, and x/crypto keeps each packet as it arrived: a
// packet with a single byte of data takes about fifty bytes in memory, and 36 on the wire. So bytes
// on the wire are counted too.
const (
	// quotaSlack is how many bytes on the wire may wait beyond the windows of the open channels.
	// With a kilobyte in each packet, full windows take a twentieth more than their size on the
	// wire.
	quotaSlack = 4 << 20

	// quotaStep is how many bytes may arrive between two checks.
	quotaStep = 1 << 20

	// tryTime is the time limit for a write that tests whether writes get through. Nothing is read
	// meanwhile.
	tryTime = 10 * time.Second

	// maxMoved is how many bytes of a channel may be moved to the queue's memory. The client's
	// window grows by the same number, so a channel holds at most its window plus maxMoved.
	maxMoved = channelWindow

	// maxBeforeLogin is how many bytes a peer may send before it has logged in. It is enough for
	// some dozens of keys or signatures.
	maxBeforeLogin = 256 << 10
)

var (
	errTalkative = errors.New("too much came before the login")
	errFlood     = errors.New("requests come that are too many to be kept, and their answers are not taken")
)

// A receiveQuota counts the bytes that arrive on a connection, and how many of them its readers
// have taken. It ends the connection when the difference grows too large.
//
// x/crypto does not report how many bytes are waiting for one channel. But if the channel was empty
// at some moment, the bytes waiting for it are at most those that have since arrived on the whole
// connection and were not taken. Two signs reveal such a moment. If a read returned less than it
// had room for, the channel was empty then. And if a whole window has been read since some moment,
// all data that was waiting at that moment has been read.
type receiveQuota struct {
	came  atomic.Int64 // bytes that arrived on the wire
	known atomic.Bool  // set when the login has succeeded
	wrote atomic.Int64 // number of completed writes

	stop func(error)  // ends the connection
	run  func(func()) // runs a function on another goroutine
	poke func()       // writes a message that has no effect; set before there are channels

	windows *wideWindows // counts the wide windows of all connections

	looked, lookedWrote int64 // used only by the reader of the wire: values of came and wrote at its last look

	mu     sync.Mutex
	taken  int64               // mu: bytes of data that were read
	queues map[*queue]struct{} // mu
	wide   *queue              // mu: the queue with a wide window; nil if no queue has one
	fixed  bool                // mu: no channel can get a wide window
	trying chan struct{}       // mu: closed when the test write has gone through; nil while no test write is under way
}

// A countedConn is a connection that counts what is read and written.
type countedConn struct {
	*sshconn.Conn
	quota *receiveQuota
}

func (c countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if over := c.quota.count(n); over != nil {
		return 0, over // stop reading: until the connection is closed, more would arrive
	}
	return n, err
}

func (c countedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.quota.wrote.Add(1)
	return n, err
}

// count counts n bytes that have arrived. It returns the reason if it ends the connection.
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

// excess returns how many of the bytes that arrived on the wire were not taken, or were not data.
// The caller holds mu.
func (r *receiveQuota) excess() int64 { return r.came.Load() - r.taken }

// take counts n bytes of data that were read by a reader that never pauses.
func (r *receiveQuota) take(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken += int64(n)
}

// look checks whether too much has arrived for a channel, and returns the reason if it ends the
// connection. Before it ends the connection because of a reader that waits for data, it makes a
// test write, and stops reading until that write has completed: on a busy machine the write may be
// late.
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

// judge checks each channel. If the result depends on a test write that is under way, tried is
// closed when that write has completed.
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
		// A read that waits for data means that the channel is empty. But after a read, x/crypto
		// sends the peer more window, and the read may be waiting for that write, if the peer reads
		// nothing or does not complete a key exchange. In this case no write completes at all.
		case q.waits && moves:
			q.empty(r.excess())
		case over <= 0:
		case len(q.buffered) == maxMoved, over >= quotaSlack && !q.waits:
			r.stop(errFlood)
			return nil, errFlood
		case q.waits: // there may simply have been nothing to write
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

// tryWrite writes a message. The next call of look sees whether the write has completed.
func (r *receiveQuota) tryWrite() {
	r.poke()
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.trying)
	r.trying = nil
}

// A queue holds the data that has arrived for one channel. The channel's session reads it. While
// the session is busy with other work, the quota may move the data to memory of the queue, where
// tiny packets take few bytes.
type queue struct {
	quota *receiveQuota
	ch    io.Reader

	reading  sync.Mutex // held while ch is read; locked before the quota's mu
	buffered []byte     // the moved data; changed with reading and quota.mu held
	err      error      // guarded by reading: the error of ch after the moved data

	window  int64 // quota.mu: bytes of data that the channel holds
	base    int64 // quota.mu: excess when the channel was known to be empty
	mark    int64 // quota.mu: excess at an earlier moment; it becomes base when a whole window was taken since then
	marked  int64 // quota.mu: value of taken at that moment
	taken   int64 // quota.mu: all bytes taken from the channel
	emptied int   // quota.mu: how many times the channel was known to be empty
	waits   bool  // quota.mu: a read is in progress
	moving  bool  // quota.mu: move is in progress
}

// open begins to count a channel.
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

// close stops counting a channel.
func (r *receiveQuota) close(q *queue) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.queues, q)
	q.narrow()
}

// empty records that the channel was empty at that excess. The caller holds quota.mu.
func (q *queue) empty(excess int64) {
	q.base, q.mark, q.marked = excess, excess, q.taken
	q.emptied++
}

// Read reads the moved data first, and then from the channel.
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
		if emptied == q.emptied { // otherwise a later moment is known already
			q.empty(before)
		}
	case q.taken-q.marked >= q.window:
		q.base = q.mark
		q.mark, q.marked = quota.excess(), q.taken
	}
	q.widen()
	return n, err
}

// move moves the data that the channel holds to memory. If the channel is empty, it waits for data.
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

// widen gives a channel with a large upload a wide window, if one is available. A channel that has
// ended gets no wide window, though its session may still read buffered data, because nothing would
// free that window again. The caller holds quota.mu.
func (q *queue) widen() {
	r := q.quota
	if q.taken < wideFrom || q.window > channelWindow || r.wide != nil || r.fixed {
		return
	}
	if _, open := r.queues[q]; !open || !r.windows.take() {
		return
	}
	if !addWindow(q.ch, wideWindow-channelWindow) {
		r.windows.give()
		r.fixed = true
		return
	}
	q.window, r.wide = wideWindow, q
}

// narrow gives back the wide window of a channel, if it has one. The caller holds quota.mu.
func (q *queue) narrow() {
	if r := q.quota; r.wide == q {
		r.windows.give()
		r.wide = nil
	}
}
