package cache

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"time"

	"github.com/haul-project/haul/store"
)

const (
	// minPiece and maxPiece bound the number of bytes that a stream reads from a source at once. A
	// stream begins with minPiece, because a reader waits for the first bytes. If a read takes less
	// than quickPiece, the number is doubled; if it takes more than slowPiece, the number is
	// halved.
	minPiece   = 8 << 10
	maxPiece   = 256 << 10
	quickPiece = 5 * time.Millisecond
	slowPiece  = 20 * time.Millisecond
)

const (
	maxStreams = 4  // most positions at which one file is fetched at the same time
	maxAhead   = 16 // most blocks that are fetched ahead of a reader
	maxQueue   = 64 // number of queued blocks of a file above which no more are fetched ahead
	maxTries   = 2  // how many times a block is requested before its readers get the error

	// retryWithin is how quickly a source must fail for the fetch to be tried again. A source that
	// takes longer has probably retried by itself.
	retryWithin = 2 * time.Second
)

var (
	errShort = fmt.Errorf("%w: the source ends before its size", io.ErrUnexpectedEOF)
)

// request returns the fetch of a block that is not on the disk, and queues a new one if there is no
// such fetch. `ahead` means that no reader waits for the block yet. The caller holds mu.
func (o *object) request(index int64, ahead bool) *fetch {
	t := o.fetches[index]
	if t == nil {
		t = &fetch{index: index, ahead: ahead}
		o.fetches[index] = t
		o.queue = append(o.queue, t)
		o.startStream(t)
	} else if t.ahead && !ahead {
		t.ahead = false
		if t.refs == 0 { // no stream has taken the fetch yet
			o.startStream(t)
		}
	}
	return t
}

// startStream starts another stream for a fetch, unless the existing streams will soon reach it or
// their number is at its limit. The caller holds mu.
func (o *object) startStream(t *fetch) {
	near := func(s *stream) bool { return t.index > s.at && t.index-s.at <= maxAhead }
	if n := len(o.streams); n > 0 && (t.ahead || o.single || n >= maxStreams || slices.ContainsFunc(o.streams, near)) {
		return
	}
	if o.ctx == nil {
		o.ctx, o.cancel = context.WithCancel(o.c.ctx)
	}
	ctx, s := o.ctx, &stream{at: t.index - 1, piece: minPiece}
	o.streams = append(o.streams, s)
	o.c.start(func() { o.stream(ctx, s) })
}

// stream fetches queued blocks until no more are left for stream s.
func (o *object) stream(ctx context.Context, s *stream) {
	c := o.c
	for {
		c.mu.Lock()
		t := o.next(ctx, s)
		if t == nil {
			o.streams = slices.DeleteFunc(o.streams, func(one *stream) bool { return one == s })
			src := s.src
			if src != nil && ctx.Err() == nil {
				o.idle = append(o.idle, src)
				src = nil
			}
			c.mu.Unlock()
			if src != nil {
				src.close()
			}
			return
		}
		c.mu.Unlock()
		o.fetch(ctx, s, t)
	}
}

// next removes a fetch from the queue and returns it. It prefers fetches that readers wait for, and
// among those the block after the one that the stream fetched last. The caller holds mu.
func (o *object) next(ctx context.Context, s *stream) *fetch {
	if ctx.Err() != nil || !slices.Contains(o.streams, s) {
		return nil
	}
	for i := 0; i < len(o.queue); i++ {
		if t := o.queue[i]; !t.ahead && t.waiting == 0 { // the readers that requested this block have left
			o.queue = slices.Delete(o.queue, i, i+1)
			o.lose(t)
			i--
		}
	}
	best := -1
	for i, t := range o.queue {
		behind := t.index == s.at+1
		switch {
		case t.ahead && !behind && len(o.streams) > 1: // leave this fetch to another stream
		case best < 0, o.queue[best].ahead && !t.ahead,
			o.queue[best].ahead == t.ahead && behind:
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	t := o.queue[best]
	o.queue = slices.Delete(o.queue, best, best+1)
	s.at = t.index
	t.refs++
	return t
}

// fetch fetches one block. The stream does not wait until the block is stored: it continues with
// the next one.
func (o *object) fetch(ctx context.Context, s *stream, t *fetch) {
	c := o.c
	c.mu.Lock()
	from := o.from
	c.mu.Unlock()
	n := blockLen(o.size, t.index)
	if !c.takeMemory(ctx, from, t, n) {
		o.end(t, context.Cause(ctx))
		return
	}
	c.count.fetches.Add(1)
	var err error
	for try := 1; try <= maxTries; try++ {
		if err = o.fill(ctx, s, t, n); err == nil || ctx.Err() != nil || errors.Is(err, store.ErrChanged) || time.Since(s.asked) > retryWithin {
			break
		}
	}
	defer func() {
		c.mu.Lock()
		from.running--
		c.running--
		c.room.Broadcast()
		c.mu.Unlock()
	}()
	if err == nil {
		c.tasks.Go(func() { o.end(t, nil) })
		return
	}
	if o.leaveTo(s, t) {
		return
	}
	if ctx.Err() == nil {
		c.count.fetchErrors.Add(1)
		c.trouble("a block could not be fetched", err, "source", o.source, "file", o.name, "block", t.index)
		c.mu.Lock()
		o.suspect = true
		c.mu.Unlock()
	}
	o.end(t, err)
}

// leaveTo leaves a fetch to the other streams of the object if stream s could not open the source.
// The version that the other streams are still reading may no longer exist at the source. leaveTo
// returns false if there are no other streams, or if s did open the source.
func (o *object) leaveTo(s *stream, t *fetch) bool {
	o.c.mu.Lock()
	defer o.c.mu.Unlock()
	if s.src != nil || t.lost || len(o.streams) < 2 || !slices.Contains(o.streams, s) {
		return false
	}
	o.single = true
	o.streams = slices.DeleteFunc(o.streams, func(one *stream) bool { return one == s })
	t.refs--
	o.queue = append(o.queue, t)
	return true
}

// end passes the result of a fetch to its readers, and stores the block if there is room, or if
// removing other blocks makes room. Blocks are not removed earlier in a fetch, because only at this
// point does no reader wait for the disk.
func (o *object) end(t *fetch, err error) {
	c := o.c
	stored := false
	if err == nil {
		saveErr := o.store(t)
		stored = saveErr == nil
		if saveErr != nil && saveErr != errNotStored {
			c.count.diskErrors.Add(1)
			c.trouble("a block cannot be stored in the cache: it is served from memory", saveErr, "source", o.source, "file", o.name)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t.refs--
	t.err, t.ended = err, true
	switch {
	case t.lost:
		c.recycle(t)
	case err != nil || stored || o.readers == 0:
		o.lose(t)
	default:
		c.count.unstored.Add(1)
		t.kept = c.kept.PushBack(keptFetch{o, t})
		c.room.Broadcast()
	}
	t.advance()
	o.forget()
}

// leave is called when the last reader of an object has left, and cancels its fetches. A block that
// has already arrived completely is stored anyway. leave returns the files of the source that the
// caller must close. The caller holds mu.
func (o *object) leave() []*origin {
	if o.cancel != nil {
		o.cancel()
		o.ctx, o.cancel = nil, nil
	}
	open := o.idle
	for _, s := range o.streams {
		if s.src != nil {
			open = append(open, s.src)
		}
	}
	if o.live != nil {
		open = append(open, o.live)
	}
	o.queue, o.streams, o.idle, o.live, o.single = nil, nil, nil, nil, false
	for _, t := range o.fetches {
		if t.buf == nil || t.filled < len(t.buf) {
			o.lose(t)
		}
	}
	return open
}

// fill reads the bytes that a fetch still lacks, until the fetch has n bytes.
func (o *object) fill(ctx context.Context, s *stream, t *fetch, n int) (err error) {
	if s.asked = time.Now(); s.src == nil {
		src, err := o.openOrigin(ctx, t.index*blockSize+int64(t.filled))
		if err != nil {
			return err
		}
		o.setSource(ctx, s, src)
	}
	defer func() {
		if err != nil {
			s.src.close()
			o.setSource(ctx, s, nil)
		}
	}()
	for at := t.filled; at < n; { // only this stream changes filled, so reading it needs no lock
		s.asked = time.Now()
		got, err := s.src.file.ReadAt(t.buf[at:min(at+s.piece, n)], t.index*blockSize+int64(at))
		s.pace(time.Since(s.asked))
		o.c.count.bytesFetched.Add(uint64(got))
		// Compute the checksum now, while the bytes are still in the processor's cache.
		sum := crc32.Update(t.sum, castagnoli, t.buf[at:at+got])
		at += got
		s.src.at = t.index*blockSize + int64(at)
		switch {
		case at == n:
			if err := o.unchanged(s.src); err != nil {
				return err
			}
		case err == io.EOF:
			return errShort
		case err != nil:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		if got == 0 {
			return io.ErrNoProgress
		}
		o.c.mu.Lock()
		t.filled, t.sum = at, sum
		t.advance()
		o.c.mu.Unlock()
	}
	return nil
}

// pace adjusts the number of bytes per read to the duration of the last read.
func (s *stream) pace(took time.Duration) {
	switch {
	case took < quickPiece:
		s.piece = min(2*s.piece, maxPiece)
	case took > slowPiece:
		s.piece = max(s.piece/2, minPiece)
	}
}

// setSource sets the file that a stream reads from. If the object's last reader has left meanwhile,
// setSource closes src.
func (o *object) setSource(ctx context.Context, s *stream, src *origin) {
	o.c.mu.Lock()
	s.src = src
	o.c.mu.Unlock()
	if src != nil && ctx.Err() != nil {
		src.close()
	}
}

// unchanged returns store.ErrChanged if the file at the source was written in place since it was
// opened. It does not check files with versions, because their store detects such changes itself.
func (o *object) unchanged(src *origin) error {
	if _, ok := store.As[store.Versioned](src.file); ok {
		return nil
	}
	fi, err := src.file.Stat()
	if err == nil && (fi.Size() != src.info.Size() || !fi.ModTime().Equal(src.info.ModTime())) {
		err = store.ErrChanged
	}
	return err
}

// openOrigin opens the object's version of the file at the source, or returns an idle open one. It
// prefers an idle file whose last read ended at offset `at`.
func (o *object) openOrigin(ctx context.Context, at int64) (*origin, error) {
	c := o.c
	c.mu.Lock()
	for i, s := range o.idle {
		if s.at == at || i == len(o.idle)-1 {
			o.idle = slices.Delete(o.idle, i, i+1)
			c.mu.Unlock()
			return s, nil
		}
	}
	from := o.from
	c.mu.Unlock()
	src, version, err := from.openSource(ctx, o.name)
	if err != nil {
		return nil, err
	}
	if version != o.version || src.info.Size() != o.size {
		src.close()
		return nil, store.ErrChanged
	}
	return src, nil
}

// release ends one reader's use of an object. After the last reader has left, all fetches are
// cancelled.
func (o *object) release() {
	c := o.c
	c.mu.Lock()
	o.readers--
	var open []*origin
	last := o.readers == 0
	if last {
		open = o.leave()
		o.forget()
	}
	gone := last && o.gone
	c.mu.Unlock()
	for _, s := range open {
		s.close()
	}
	if gone {
		c.clearGone(o)
	}
}
