package cache

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/haul-project/haul/store"
)

const (
	maxFetches = 64 // blocks being fetched, of all files; each source has its share of them
	maxStreams = 4  // places at which one file is fetched at once
	maxAhead   = 16 // blocks fetched ahead of a reader
	maxQueue   = 64 // of a file, behind which nothing is fetched ahead
	maxTries   = 2  // times that a block is fetched before its readers get the error

	// retryWithin is how soon a source must fail to be tried again: one that takes longer has
	// tried what it could.
	retryWithin = 2 * time.Second
)

var (
	errNotStored = errors.New("the cache has no room for it")
	errShort     = fmt.Errorf("%w: the source ends before its size", io.ErrUnexpectedEOF)
)

// fetching is the part of an object that has to do with its source. It is guarded by
// Cache.mu.
type fetching struct {
	fetches map[int64]*fetch // queued, under way, and kept
	queue   []*fetch
	streams []*stream
	idle    []*origin
	live    *origin         // for readers, as the file was written in place
	single  bool            // the source gives the version no second time
	ctx     context.Context // ends with the last reader
	cancel  context.CancelFunc
}

func newFetching() fetching { return fetching{fetches: map[int64]*fetch{}} }

// A fetch is a block that comes from the source. Readers copy from it what has come. If it
// cannot be stored, it is kept until others need the memory.
//
// All fields are guarded by Cache.mu, but sum, which is the stream's that fetches. The first
// filled bytes of buf do not change any more.
type fetch struct {
	index   int64
	buf     []byte // from when it is under way
	filled  int
	sum     uint32 // the checksum of these
	err     error
	ended   bool // with err, or with all bytes
	lost    bool // it is in no object any more
	ahead   bool // nobody asked for it yet
	waiting int  // readers
	refs    int  // readers that copy, and the stream
	wake    chan struct{}
	kept    *list.Element // in Cache.kept
}

// progress returns a channel that is closed when more has come. The caller holds mu.
func (t *fetch) progress() chan struct{} {
	if t.wake == nil {
		t.wake = make(chan struct{})
	}
	return t.wake
}

// advance wakes those who wait. The caller holds mu.
func (t *fetch) advance() {
	if t.wake != nil {
		close(t.wake)
		t.wake = nil
	}
}

// A stream fetches blocks of an object, one after the other.
type stream struct {
	at    int64     // mu: the block that it fetches; the one before its first at the beginning
	src   *origin   // mu, but for the stream itself, which alone sets it
	piece int       // bytes that it reads at once
	asked time.Time // when it asked the source last
}

// request returns the fetch of a block that is not on the disk, and begins one if there is
// none. The caller holds mu.
func (o *object) request(index int64, ahead bool) *fetch {
	t := o.fetches[index]
	if t == nil {
		t = &fetch{index: index, ahead: ahead}
		o.fetches[index] = t
		o.queue = append(o.queue, t)
		o.startStream(t)
	} else if t.ahead && !ahead {
		t.ahead = false
		if t.refs == 0 { // no stream has it yet
			o.startStream(t)
		}
	}
	return t
}

// startStream starts a stream for a fetch, unless there are others for it. The caller
// holds mu.
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

// stream fetches what is queued.
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

// next takes the next fetch from the queue: the one behind the last, unless readers wait
// for others only. The caller holds mu.
func (o *object) next(ctx context.Context, s *stream) *fetch {
	if ctx.Err() != nil || !slices.Contains(o.streams, s) {
		return nil
	}
	for i := 0; i < len(o.queue); i++ {
		if t := o.queue[i]; !t.ahead && t.waiting == 0 { // its readers have left
			o.queue = slices.Delete(o.queue, i, i+1)
			o.lose(t)
			i--
		}
	}
	best := -1
	for i, t := range o.queue {
		behind := t.index == s.at+1
		switch {
		case t.ahead && !behind && len(o.streams) > 1: // for another stream
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

// lose takes a fetch out of its object. The caller holds mu.
func (o *object) lose(t *fetch) {
	if o.fetches[t.index] == t {
		delete(o.fetches, t.index)
	}
	t.lost = true
	if t.kept != nil {
		o.c.kept.Remove(t.kept)
		t.kept = nil
	}
	o.c.recycle(t)
}

// recycle gives the memory of a fetch back if nobody needs it. The caller holds mu.
func (c *Cache) recycle(t *fetch) {
	if t.buf == nil || t.refs > 0 {
		return
	}
	if !t.lost {
		if t.kept != nil {
			c.room.Broadcast() // it can be dropped now
		}
		return
	}
	c.memory -= int64(len(t.buf))
	if len(t.buf) == blockSize {
		blockBuffers.Put((*[blockSize]byte)(t.buf))
	}
	t.buf = nil
	c.room.Broadcast()
}

var blockBuffers = sync.Pool{New: func() any { return new([blockSize]byte) }}

// share is how many blocks of one source are fetched at once, so that one that does not answer
// leaves memory to the others. The caller holds mu.
func (c *Cache) share() int {
	return max(1, min(maxFetches, int(c.cfg.Memory/blockSize))/max(1, len(c.fronts)))
}

// takeMemory gives a fetch its memory, when there is some, and its source one of its places.
// It reports false if ctx ends.
func (c *Cache) takeMemory(ctx context.Context, s *front, t *fetch, n int) bool {
	defer context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.room.Broadcast()
	})()
	c.mu.Lock()
	defer c.mu.Unlock()
	for s.running >= c.share() || t.buf == nil && c.memory+int64(n) > c.cfg.Memory {
		if ctx.Err() != nil {
			return false
		}
		if s.running >= c.share() || !c.dropKept() {
			c.room.Wait()
		}
	}
	s.running++
	c.running++
	if t.buf != nil { // another stream has left it
		return true
	}
	c.memory += int64(n)
	if n == blockSize {
		t.buf = blockBuffers.Get().(*[blockSize]byte)[:]
	} else {
		t.buf = make([]byte, n)
	}
	return true
}

// dropKept drops the block in memory that was kept for the longest time. The caller holds
// mu.
func (c *Cache) dropKept() bool {
	for e := c.kept.Front(); e != nil; e = e.Next() {
		k := e.Value.(keptFetch)
		if k.t.refs == 0 {
			k.o.lose(k.t)
			k.o.forget()
			return true
		}
	}
	return false
}

// A keptFetch is a block that could not be stored.
type keptFetch struct {
	o *object
	t *fetch
}

// fetch fetches one block. The stream continues while that is stored.
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
		from.expire(o)
	}
	o.end(t, err)
}

// leaveTo leaves a fetch to the other streams of the object if this one has no source: the
// version that they read may not be there any more. It reports false if there are none.
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

// end gives the readers of a fetch what came of it, and stores the block if there is room
// for it. Blocks are removed for that only here: no reader waits for the disk meanwhile.
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

// leave ends all fetches of an object, as its last reader has left. A block all of which
// has come is stored all the same. It returns what has to be closed. The caller holds mu.
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
