package s3

import (
	"context"
	"io"
	"slices"
	"sync"
	"time"
)

const (
	// maxOfConns limits the answers, over all files, that are kept but not being read: at most one
	// of maxOfConns connections may hold one.
	maxOfConns = 2

	// streamPatience is how long an answer that is not being read is kept.
	streamPatience = 10 * time.Second

	// maxSkip is the most bytes of an answer that are read and discarded to reach a later offset,
	// instead of making a new request.
	maxSkip = 64 << 10
)

// A stream is an answer to a request for a range.
type stream struct {
	file    context.Context // identifies the file; no other file has this context
	body    io.ReadCloser
	at, end int64
	since   time.Time // when it was put back into streams
}

// Read reads the next bytes. It is an error if the answer ends early.
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

// streams holds the answers that are kept, oldest first.
type streams struct {
	most  int // constant: how many are kept
	mu    sync.Mutex
	kept  []*stream   // mu
	timer *time.Timer // guarded by mu: closes old answers
}

// take returns an answer of a file that reaches off, or nil.
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

// put keeps an answer, unless it is at its end.
func (k *streams) put(st *stream) {
	if st.at == st.end {
		// Read its end, so that the connection can be reused.
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

// expire closes answers that were not read for too long.
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
