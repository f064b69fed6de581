package cache

import (
	"context"
	"hash/crc32"
	"io"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/haul-project/haul/store"
)

const (
	// Bytes that a stream reads from a source at once: few at first, since somebody waits for
	// the first that come. Then twice as many each time, as long as that takes less than
	// quickPiece; half as many if it takes more than slowPiece.
	minPiece   = 8 << 10
	maxPiece   = 256 << 10
	quickPiece = 5 * time.Millisecond
	slowPiece  = 20 * time.Millisecond
)

// An origin is a file that is open at the source.
type origin struct {
	file   store.File
	info   fs.FileInfo
	at     int64 // where it was read last
	cancel context.CancelFunc
	once   sync.Once
}

// close ends whoever reads.
func (s *origin) close() {
	s.once.Do(func() {
		s.cancel()
		_ = s.file.Close()
	})
}

// fill reads the bytes of a fetch that are missing.
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
	for at := t.filled; at < n; { // filled is this stream's to change
		s.asked = time.Now()
		got, err := s.src.file.ReadAt(t.buf[at:min(at+s.piece, n)], t.index*blockSize+int64(at))
		s.pace(time.Since(s.asked))
		o.c.count.bytesFetched.Add(uint64(got))
		sum := crc32.Update(t.sum, castagnoli, t.buf[at:at+got]) // while the processor has them
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

// pace notes how long a piece has taken.
func (s *stream) pace(took time.Duration) {
	switch {
	case took < quickPiece:
		s.piece = min(2*s.piece, maxPiece)
	case took > slowPiece:
		s.piece = max(s.piece/2, minPiece)
	}
}

// setSource has a stream read from src. If the last reader has left meanwhile, src is closed.
func (o *object) setSource(ctx context.Context, s *stream, src *origin) {
	o.c.mu.Lock()
	s.src = src
	o.c.mu.Unlock()
	if src != nil && ctx.Err() != nil {
		src.close()
	}
}

// unchanged returns store.ErrChanged if the file at the source was written to in place. A
// store whose files have versions sees that itself.
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

// openOrigin opens the object's version of the file at the source.
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
