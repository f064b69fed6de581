package s3

import (
	"context"
	"io"
	"slices"
	"sync"
	"time"
)

const (
	// maxOfConns limits the number of answers that are kept open without being read, for all files
	// together: at most 1/maxOfConns of the connections may be used for them.
	maxOfConns = 2

	// streamPatience is how long an answer is kept while nobody reads it.
	streamPatience = 10 * time.Second

	// maxSkip is the most bytes that are read and discarded to reach a later offset in an open
	// answer. For a larger distance, a new request is sent.
	maxSkip = 64 << 10
)

// A stream is an open answer with a range of a file.
type stream struct {
	file    context.Context // context of the file; it identifies the file, because each file has its own
	body    io.ReadCloser
	at, end int64     // offset of the next byte to read, and end of the range
	since   time.Time // when the stream was last put into streams.kept
}

// Read reads the next bytes. If the answer ends before the range does, it returns an error.
func (st *stream) Read(p []byte) (int, error) {
	if int64(len(p)) > st.end-st.at {
		p = p[:st.end-st.at]
	}
	n, err := st.body.Read(p)
	st.at += int64(n)
	switch {
	case err == io.EOF && st.at < st.end:
		err = io.ErrUnexpectedEOF
	case err == io.EOF && n > 0:
		err = nil
	}
	return n, err
}

// streams holds the open answers that are not being read at the moment.
type streams struct {
	most  int // largest number of answers that are kept; constant
	mu    sync.Mutex
	kept  []*stream   // the open answers, the oldest first; guarded by mu
	timer *time.Timer // runs expire; guarded by mu
}

// take removes and returns an answer from which the file can be read at off, or returns nil.
func (k *streams) take(file context.Context, off int64) *stream {
	k.mu.Lock()
	i := slices.IndexFunc(k.kept, func(st *stream) bool {
		return st.file == file && st.at <= off && off < st.end && off-st.at <= maxSkip
	})
	if i < 0 {
		k.mu.Unlock()
		return nil
	}
	st := k.kept[i]
	k.kept = slices.Delete(k.kept, i, i+1)
	k.mu.Unlock()
	if _, err := io.CopyN(io.Discard, st, off-st.at); err != nil {
		_ = st.body.Close()
		return nil
	}
	return st
}

// put keeps an answer for later reads. If all of its range was read, put closes it instead.
func (k *streams) put(st *stream) {
	if st.at == st.end {
		// Read the end of the body, so that the connection can be reused.
		_, _ = st.body.Read(make([]byte, 1))
		_ = st.body.Close()
		return
	}
	k.mu.Lock()
	st.since = time.Now()
	k.kept = append(k.kept, st)
	var old []*stream
	if len(k.kept) > k.most {
		old = slices.Clone(k.kept[:len(k.kept)-k.most])
		k.kept = slices.Delete(k.kept, 0, len(old))
	}
	if k.timer == nil {
		k.timer = time.AfterFunc(streamPatience, k.expire)
	}
	closed := st.file.Err() != nil
	k.mu.Unlock()
	closeStreams(old)
	if closed {
		k.closeOf(st.file)
	}
}

// expire closes the answers that were not read for streamPatience.
func (k *streams) expire() {
	k.closeIf(func(st *stream) bool { return time.Since(st.since) >= streamPatience })
	k.mu.Lock()
	defer k.mu.Unlock()
	k.timer = nil
	if len(k.kept) > 0 {
		k.timer = time.AfterFunc(streamPatience, k.expire)
	}
}

func (k *streams) closeOf(file context.Context) {
	k.closeIf(func(st *stream) bool { return st.file == file })
}
func (k *streams) closeAll() { k.closeIf(func(*stream) bool { return true }) }

func (k *streams) closeIf(is func(*stream) bool) {
	k.mu.Lock()
	var gone []*stream
	k.kept = slices.DeleteFunc(k.kept, func(st *stream) bool {
		if is(st) {
			gone = append(gone, st)
			return true
		}
		return false
	})
	k.mu.Unlock()
	closeStreams(gone)
}

func closeStreams(list []*stream) {
	for _, st := range list {
		_ = st.body.Close()
	}
}
