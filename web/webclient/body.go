package webclient

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// expectFrom is the smallest size of an upload, in bytes, for which the server is asked whether it
// accepts the upload before the data is sent (RFC 9110 §10.1.1). For less, asking takes longer than
// sending.
const expectFrom = 1 << 20

// maxCommit is how long a server may take to answer a PUT that it has completely received: it may
// have to wait for a slow disk.
const maxCommit = 10 * time.Minute

// errInOrder means that an upload must be written from start to end.
var errInOrder = fmt.Errorf("%w: HTTP takes what is sent in order, without gaps", errors.ErrUnsupported)

// A putBody is the content of a PUT. One goroutine provides the data, by write or fill, and the
// transport reads it. The last byte of a body of known size is not sent before commit.
type putBody struct {
	mu    sync.Mutex // guards all other fields
	moved *sync.Cond // wakes all waiting goroutines after every change of the body

	total int64 // offset of the end of the file; -1 if unknown
	first int64 // offset at which the request begins
	at    int64 // offset of the next byte to send

	chunk     []byte      // the data of the current call of write that is not sent yet
	src       io.ReaderAt // provides the bytes from srcStart to srcEnd; set by begins
	srcStart  int64
	srcEnd    int64
	reading   int  // how many reads of src by the transport are under way
	last      byte // the last byte of the file, which is sent after commit; valid if held is set
	held      bool // last is set; stays true, because the last byte may have to be sent again
	committed bool
	err       error // why no more data will be provided
	local     error // the error of src, if src has failed

	turn  int // number of the current reader; earlier readers return errors
	timer *time.Timer
	stall time.Duration
}

func newPutBody(total, first int64) *putBody {
	b := &putBody{total: total, first: first, at: first}
	b.moved = sync.NewCond(&b.mu)
	return b
}

// attach makes the body the content of a request. The request's timer runs while the transport has
// data to send, or the server has to answer.
func (b *putBody) attach(req *http.Request, timer *time.Timer, stall time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.timer, b.stall = timer, stall
	req.ContentLength = -1
	if b.committed && b.total < 0 && b.at == b.first && len(b.chunk) == 0 {
		b.total = b.at // the file is empty
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

// reader returns the reader for the transport's next attempt to send the body. From then on, earlier
// readers return errors. The caller holds mu.
func (b *putBody) reader() io.ReadCloser {
	b.turn++
	return &bodyReader{b, b.turn}
}

// A bodyReader reads a body for one attempt to send it.
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
			return 0, io.ErrClosedPipe // another reader sends the request again
		}
		b.timer.Stop() // the time limit applies only to the server, and not to the wait for more data
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

// reach returns the offset up to which data may be sent now: before commit, all but the last byte.
func (b *putBody) reach() int64 {
	switch {
	case b.total < 0:
		return 1<<63 - 1
	case b.committed:
		return b.total
	}
	return b.total - 1
}

// take moves available data to p. It reports whether everything has been sent. The caller holds mu.
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

// read reads from src. The caller holds mu, which is released meanwhile.
func (b *putBody) read(p []byte) int {
	src, at, turn := b.src, b.at, b.turn
	b.reading++
	b.mu.Unlock()
	n, err := src.ReadAt(p, at)
	b.mu.Lock()
	b.reading--
	b.moved.Broadcast()
	if turn != b.turn {
		return 0 // another reader sends these bytes again
	}
	if n == 0 {
		if err == io.EOF || err == nil {
			err = io.ErrUnexpectedEOF
		}
		b.fail(err, true)
	}
	return n
}

// fail makes the body return an error, unless it has one already. local means that src failed. The
// caller holds mu.
func (b *putBody) fail(err error, local bool) {
	if b.err == nil {
		b.err = err
		if local {
			b.local = err
		}
	}
	b.moved.Broadcast()
}

// abort is fail for a caller that does not hold mu.
func (b *putBody) abort(err error, local bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fail(err, local)
}

// write provides p, and waits until it is sent, except for a last byte that is held back.
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

// begins makes src the source of the bytes between two offsets.
func (b *putBody) begins(src io.ReaderAt, start, end int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.src, b.srcStart, b.srcEnd = src, start, end
	b.moved.Broadcast()
}

// fill waits until the transport has read all bytes that the call of [putBody.begins] announced, or
// until the body has failed. If they include the last byte of the file, fill holds that byte back,
// and does not wait for it. It returns the number of bytes read, including a byte that is held back.
func (b *putBody) fill() (n int64, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.reading > 0 || b.at < min(b.srcEnd, b.reach()) && b.err == nil {
		b.moved.Wait()
	}
	if b.err == nil && b.srcEnd == b.total {
		// Hold mu during this read, so that the transport does not rewind meanwhile.
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

// release gives up the source, and waits until no read of it is under way.
func (b *putBody) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.src = nil
	for b.reading > 0 {
		b.moved.Wait()
	}
}

// commit records that all data was provided, so that the last byte may be sent.
func (b *putBody) commit() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.committed = true
	b.moved.Broadcast()
}

// rewind restarts the request's content from its beginning, and reports whether that is possible.
func (b *putBody) rewind() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rewindTo(b.first)
}

// rewindTo goes back to an offset if all bytes from there on are still available, and reports
// whether they are. The caller holds mu.
func (b *putBody) rewindTo(off int64) bool {
	if !b.reaches(off) {
		return false
	}
	b.turn++ // the current reader returns an error from now on
	b.at = off
	b.moved.Broadcast()
	return true
}

// reaches reports whether all bytes from an offset on are still available. The caller holds mu.
func (b *putBody) reaches(off int64) bool {
	return b.at == off || b.src != nil && off >= b.srcStart && b.err == nil
}

// restarts reports whether the method restart would succeed.
func (b *putBody) restarts(off int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.reaches(off)
}

// restart makes the next request begin at an offset, and reports whether that is possible.
func (b *putBody) restart(off int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.rewindTo(off) {
		return false
	}
	b.first = off
	return true
}

// sent returns the offset up to which the transport has taken the data.
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

// complete reports whether all data was provided, and the transport has taken all of it.
func (b *putBody) complete() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.committed && (b.total < 0 || b.at == b.total)
}

// localError returns why the source failed, if it did.
func (b *putBody) localError() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.local
}
