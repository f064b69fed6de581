package sftp

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/internal/shares"
	"github.com/haul-project/haul/internal/sshconn"
)

// SSH windows bound how much data a peer can send on each channel before the server has read it.
// But windows count only bytes of data, and x/crypto keeps each packet as it arrived: a packet with
// a single byte of data takes about fifty bytes of memory, and 36 on the wire. So a receiveQuota
// also counts bytes on the wire.
const (
	// quotaSlack is how many bytes on the wire may wait in addition to the windows of the open
	// channels. If each packet holds a kilobyte, the packets of a full window take 5 % more bytes
	// on the wire than the window's size.
	quotaSlack = 4 << 20

	// quotaStep is the number of bytes that arrive between two checks.
	quotaStep = 1 << 20

	// tryTime is the time limit for a write that tests whether the peer still receives. Nothing is
	// read from the connection meanwhile.
	tryTime = 10 * time.Second

	// maxMoved is how many bytes of a channel may be moved to the memory of its queue: see queue.
	// Moving them widens the client's window by the same number, so at most the bytes of a window
	// and maxMoved more wait for a channel.
	maxMoved = channelWindow

	// maxBeforeLogin is how many bytes a peer may send before it has logged in: enough for some
	// dozens of keys or signatures.
	maxBeforeLogin = 256 << 10
)

var (
	errTalkative = errors.New("too much came before the login")
	errFlood     = errors.New("requests come that are too many to be kept, and their answers are not taken")
)

// A receiveQuota counts the bytes that arrive on a connection, and the bytes that its channels'
// readers have taken. It closes the connection when the difference grows too large.
//
// x/crypto does not report how many bytes wait for one channel, so the quota estimates that number.
// If the channel was empty at some moment, all data that waits for it has arrived since. So it is at
// most the data that has arrived since then on the whole connection and was not taken. Two signs
// reveal such a moment. If a read returned fewer bytes than it had room for, the channel was empty
// then. And if a whole window has been read from a channel since some moment, all data that waited
// at that moment has been read.
type receiveQuota struct {
	came  atomic.Int64 // bytes that have arrived on the wire
	known atomic.Bool  // set once the login has succeeded
	wrote atomic.Int64 // number of completed writes to the connection

	stop func(error)  // closes the connection, with the error as the reason
	run  func(func()) // runs a function on a goroutine of the connection
	poke func()       // sends a message that has no effect on the peer; set before any channel is open

	windows *shares.Table // counts the wide windows of all connections
	source  shares.Source // the key of the connection in windows

	// looked and lookedWrote are the values of the fields came and wrote at the last check. Only the
	// goroutine that reads the connection uses them.
	looked, lookedWrote int64

	mu     sync.Mutex
	taken  int64               // bytes of data that were read from channels; guarded by mu
	queues map[*queue]struct{} // the queues of the open channels; guarded by mu
	wide   *queue              // the queue with a wide window; nil if no queue has one; guarded by mu
	fixed  bool                // windows cannot be widened, because x/crypto's fields are unknown; guarded by mu
	// trying is closed when the test write has completed. It is nil if no test write is under way;
	// guarded by mu.
	trying chan struct{}
}

// A countedConn is a connection that reports all reads and writes to a receiveQuota.
type countedConn struct {
	*sshconn.Conn
	quota *receiveQuota
}

func (c countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if over := c.quota.count(n); over != nil {
		return 0, over // drop the data: more would arrive until the connection is closed
	}
	return n, err
}

func (c countedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.quota.wrote.Add(1)
	return n, err
}

// count counts n bytes that have arrived. If it closes the connection, it returns the reason.
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

// excess returns the number of bytes that arrived on the wire and were not taken. Bytes that are
// not data are never taken, so excess includes them. The caller holds mu.
func (r *receiveQuota) excess() int64 { return r.came.Load() - r.taken }

// take counts n bytes of stderr data. They need no queue, because their reader never pauses.
func (r *receiveQuota) take(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken += int64(n)
}

// look checks whether too much data waits for a channel. If so, it closes the connection and
// returns the reason. If a reader waits for data, the channel is probably empty. On a busy machine,
// judge may have missed that because no write has completed lately. In this case look first makes a
// test write, and reads nothing from the connection until that write has completed.
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

// judge checks each channel. If the result depends on a test write that is under way, judge returns
// the channel `tried`, which is closed when that write has completed. The caller then has to call
// judge again.
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
		// A read that waits for data usually means that the channel is empty. But after a read,
		// x/crypto sends the peer more window, and the read may be waiting for that write instead,
		// if the peer receives nothing or does not complete a key exchange. Then no write completes
		// at all, so moves is false.
		case q.waits && moves:
			q.empty(r.excess())
		case over <= 0:
		case len(q.buffered) == maxMoved, over >= quotaSlack && !q.waits:
			r.stop(errFlood)
			return nil, errFlood
		case q.waits: // perhaps no write has completed only because there was nothing to write
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

// tryWrite sends a message that has no effect on the peer, and then closes the channel `trying`. If
// the write completes, the peer still receives.
func (r *receiveQuota) tryWrite() {
	r.poke()
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.trying)
	r.trying = nil
}

// A queue passes the data that has arrived for one channel on to the channel's session. While the
// session is busy with other work, the quota may move the data to memory of the queue. There a tiny
// packet takes no more bytes than its data has.
type queue struct {
	quota *receiveQuota
	ch    io.Reader

	reading  sync.Mutex // held while ch is read; locked before quota.mu
	buffered []byte     // the moved data; both locks, `reading` and quota.mu, are held to change it
	err      error      // the error that ch returned after the moved data; guarded by the lock `reading`

	window int64 // the channel's window in bytes; guarded by quota.mu
	base   int64 // value of excess when the channel was last known to be empty; guarded by quota.mu
	// mark is the value of excess at a moment after that of base. It becomes base once a whole
	// window has been read from the channel since that moment; guarded by quota.mu.
	mark    int64
	marked  int64 // value of q.taken at the moment of mark; guarded by quota.mu
	taken   int64 // all bytes that were taken from the channel; guarded by quota.mu
	emptied int   // number of times that the channel was found to be empty; guarded by quota.mu
	waits   bool  // a read of ch is in progress; guarded by quota.mu
	moving  bool  // the method move is running, or about to run; guarded by quota.mu
}

// open returns a queue for a channel, and begins to count the channel's data.
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

// close stops counting the data of a channel.
func (r *receiveQuota) close(q *queue) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.queues, q)
	q.narrow()
}

// empty records that the channel was empty when excess had that value. The caller holds quota.mu.
func (q *queue) empty(excess int64) {
	q.base, q.mark, q.marked = excess, excess, q.taken
	q.emptied++
}

// Read returns the moved data first, and then reads from the channel.
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

// read reads from the channel. The caller holds q.reading.
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
		if emptied == q.emptied { // otherwise the channel was found to be empty at a later moment
			q.empty(before)
		}
	case q.taken-q.marked >= q.window:
		q.base = q.mark
		q.mark, q.marked = quota.excess(), q.taken
	}
	q.widen()
	return n, err
}

// move moves the data that the channel holds to memory of the queue. If the channel is empty, move
// waits for data.
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

// widen enlarges the window of a channel with a large upload, if another wide window is allowed. It
// skips a channel that is closed already, though its session may still read buffered data, because
// nothing would free that window again. The caller holds quota.mu.
func (q *queue) widen() {
	r := q.quota
	if q.taken < wideFrom || q.window > channelWindow || r.wide != nil || r.fixed {
		return
	}
	if _, open := r.queues[q]; !open || !r.windows.Take(r.source, 1, wideBound) {
		return
	}
	if !addWindow(q.ch, wideWindow-channelWindow) {
		r.windows.Give(r.source, 1)
		r.fixed = true
		return
	}
	q.window, r.wide = wideWindow, q
}

// narrow frees the wide window of a channel, if the channel has one. The caller holds quota.mu.
func (q *queue) narrow() {
	if r := q.quota; r.wide == q {
		r.windows.Give(r.source, 1)
		r.wide = nil
	}
}
