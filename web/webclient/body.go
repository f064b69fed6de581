package webclient

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// expectFrom is from how many bytes on the server is asked whether it wants an
// upload before it is sent (RFC 9110 §10.1.1). For less that takes longer than
// sending it.
const expectFrom = 1 << 20

// maxCommit is how long a server may take to answer a PUT all of which
// it has: it may have a slow disk to wait for.
const maxCommit = 10 * time.Minute

// errInOrder says that an upload is written from its start to its end.
var errInOrder = fmt.Errorf("%w: HTTP takes what is sent in order, without gaps", errors.ErrUnsupported)

// A putBody is the content of a PUT. One goroutine gives what is to be sent,
// by write or fill, and the transport takes it. The last byte of a body whose size
// is known is not sent before commit.
type putBody struct {
	mu    sync.Mutex
	moved *sync.Cond // of all that changes

	total int64 // offset of the end; -1 if that is not known
	first int64 // offset at which the request begins
	at    int64 // offset of what is sent next

	chunk     []byte      // given by write
	src       io.ReaderAt // given by fill
	srcStart  int64
	srcEnd    int64
	reading   int  // how many read src now, for the transport
	last      byte // held back, if held
	held      bool // for good: it may be sent again
	committed bool
	err       error // why there is no more
	local     error // src has failed

	turn  int // counts the readers that there have been
	timer *time.Timer
	stall time.Duration
}

func newPutBody(total, first int64) *putBody {
	b := &putBody{total: total, first: first, at: first}
	b.moved = sync.NewCond(&b.mu)
	return b
}

// attach makes it the content of a request, whose timer runs while the transport
// has something to send, or the server something to answer.
func (b *putBody) attach(req *http.Request, timer *time.Timer, stall time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.timer, b.stall = timer, stall
	req.ContentLength = -1
	if b.committed && b.total < 0 && b.at == b.first && len(b.chunk) == 0 {
		b.total = b.at // there is nothing at all
	}
	if b.total >= 0 {
		req.ContentLength = b.total - b.first
	}
	if req.ContentLength == 0 {
		req.Body = http.NoBody
		return
	}
	if req.ContentLength < 0 || req.ContentLength >= expectFrom {
		req.Header.Set("Expect", "100-continue")
	}
	req.Body = b.reader()
	req.GetBody = func() (io.ReadCloser, error) {
		if !b.rewind() {
			return nil, errInOrder
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.reader(), nil
	}
}

// reader returns what the transport reads from now on. The caller holds mu.
func (b *putBody) reader() io.ReadCloser {
	b.turn++
	return &bodyReader{b, b.turn}
}

// A bodyReader is a body as one attempt to send it sees it.
type bodyReader struct {
	b    *putBody
	turn int
}

// Close implements [io.Closer].
func (r *bodyReader) Close() error { return nil }

// Read implements [io.Reader].
func (r *bodyReader) Read(p []byte) (n int, err error) {
	b := r.b
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		if r.turn != b.turn {
			return 0, io.ErrClosedPipe // the request is sent anew, by another
		}
		b.timer.Stop() // this side may take its time
		if b.err != nil {
			return 0, b.err
		}
		n, over := b.take(p)
		switch {
		case over:
			b.timer.Reset(maxCommit)
			return 0, io.EOF
		case n > 0:
			b.timer.Reset(b.stall)
			return n, nil
		case b.err == nil && r.turn == b.turn:
			b.moved.Wait()
		}
	}
}

// reach returns up to where may be sent now.
func (b *putBody) reach() int64 {
	switch {
	case b.total < 0:
		return 1<<63 - 1
	case b.committed:
		return b.total
	}
	return b.total - 1
}

// take moves what there is to p. It reports whether all has been sent. The caller
// holds mu.
func (b *putBody) take(p []byte) (n int, over bool) {
	room := int(min(int64(len(p)), b.reach()-b.at))
	switch {
	case b.total >= 0 && b.at == b.total:
		return 0, true
	case room <= 0:
		return 0, false
	case b.held && b.at == b.total-1:
		p[0], n = b.last, 1
	case len(b.chunk) > 0:
		n = copy(p[:room], b.chunk)
		b.chunk = b.chunk[n:]
	case b.src != nil && b.at < b.srcEnd:
		n = b.read(p[:min(int64(room), b.srcEnd-b.at)])
	default:
		return 0, b.committed && b.total < 0
	}
	b.at += int64(n)
	b.moved.Broadcast()
	return n, false
}

// read reads from src. The caller holds mu, which is free meanwhile.
func (b *putBody) read(p []byte) int {
	src, at, turn := b.src, b.at, b.turn
	b.reading++
	b.mu.Unlock()
	n, err := src.ReadAt(p, at)
	b.mu.Lock()
	b.reading--
	b.moved.Broadcast()
	if turn != b.turn {
		return 0 // what was read is sent again by another
	}
	if n == 0 {
		if err == io.EOF || err == nil {
			err = io.ErrUnexpectedEOF
		}
		b.fail(err, true)
	}
	return n
}

// fail ends the body by an error. The caller holds mu.
func (b *putBody) fail(err error, local bool) {
	if b.err == nil {
		b.err = err
		if local {
			b.local = err
		}
	}
	b.moved.Broadcast()
}

// abort ends the body by an error, unless it has ended before.
func (b *putBody) abort(err error, local bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fail(err, local)
}

// write gives p to be sent, and waits until it is, but for a last byte that is
// held back.
func (b *putBody) write(p []byte) (n int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.chunk = p
	b.moved.Broadcast()
	for len(b.chunk) > 0 && b.err == nil {
		if len(b.chunk) == 1 && b.at == b.total-1 {
			b.last, b.held, b.chunk = b.chunk[0], true, nil
			break
		}
		b.moved.Wait()
	}
	n = len(p) - len(b.chunk)
	b.chunk = nil
	return n, b.err
}

// begins says that what lies between two offsets is read from src.
func (b *putBody) begins(src io.ReaderAt, start, end int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.src, b.srcStart, b.srcEnd = src, start, end
	b.moved.Broadcast()
}

// fill waits until what begins said is sent, but for a last byte that is held
// back. It returns how much is.
func (b *putBody) fill() (n int64, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.reading > 0 || b.at < min(b.srcEnd, b.reach()) && b.err == nil {
		b.moved.Wait()
	}
	if b.err == nil && b.srcEnd == b.total {
		// Under mu, as the transport must not go back from here on.
		var last [1]byte
		if n, err := b.src.ReadAt(last[:], b.total-1); n == 1 {
			b.last, b.held = last[0], true
		} else {
			if err == nil || err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			b.fail(err, true)
		}
	}
	if b.err != nil {
		b.src = nil
	}
	n = b.at - b.srcStart
	if b.held && b.at == b.total-1 {
		n++
	}
	return n, b.err
}

// release gives up the source, once no read of it is under way.
func (b *putBody) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.src = nil
	for b.reading > 0 {
		b.moved.Wait()
	}
}

// commit says that all was given.
func (b *putBody) commit() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.committed = true
	b.moved.Broadcast()
}

// rewind has everything sent again, and reports whether that can be done.
func (b *putBody) rewind() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rewindTo(b.first)
}

// rewindTo goes back to an offset from which all is there still, and reports
// whether it is. The caller holds mu.
func (b *putBody) rewindTo(off int64) bool {
	if !b.reaches(off) {
		return false
	}
	b.turn++ // who reads now reads no more
	b.at = off
	b.moved.Broadcast()
	return true
}

// reaches reports whether all from an offset on is there still. The caller holds mu.
func (b *putBody) reaches(off int64) bool {
	return b.at == off || b.src != nil && off >= b.srcStart && b.err == nil
}

// restarts reports whether restart can be done.
func (b *putBody) restarts(off int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.reaches(off)
}

// restart has the next request begin at an offset, and reports whether that can
// be done.
func (b *putBody) restart(off int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.rewindTo(off) {
		return false
	}
	b.first = off
	return true
}

// sent returns up to where it has been given to the transport.
func (b *putBody) sent() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.at
}

// begin returns the offset at which the request begins.
func (b *putBody) begin() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.first
}

// complete reports whether all was sent.
func (b *putBody) complete() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.committed && (b.total < 0 || b.at == b.total)
}

// localError returns why this side's source has failed, if it has.
func (b *putBody) localError() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.local
}
