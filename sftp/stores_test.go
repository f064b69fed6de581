package sftp

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/store"
)

// serverBroken is a store whose open files fail by err in all they do.
type serverBroken struct {
	store.Tree
	err error
}

func (b serverBroken) OpenFile(ctx context.Context, name string, a store.Access) (store.Handle, error) {
	h, err := b.Tree.OpenFile(ctx, name, a)
	if err != nil {
		return nil, err
	}
	return serverBrokenFile{h, b.err}, nil
}

type serverBrokenFile struct {
	store.Handle
	err error
}

func (f serverBrokenFile) ReadAt([]byte, int64) (int, error)  { return 0, f.err }
func (f serverBrokenFile) WriteAt([]byte, int64) (int, error) { return 0, f.err }

func (f serverBrokenFile) Close() error {
	_ = f.Handle.Close()
	if f.err == nil {
		return context.Canceled
	}
	return f.err
}

// serverSlow is a store that says what it does, and takes its time.
type serverSlow struct {
	store.Tree
	read, written atomic.Int64 // bytes
	delay         time.Duration
	panics        bool
}

func (s *serverSlow) OpenFile(ctx context.Context, name string, a store.Access) (store.Handle, error) {
	h, err := s.Tree.OpenFile(ctx, name, a)
	if err != nil {
		return nil, err
	}
	return &serverSlowFile{h, s}, nil
}

type serverSlowFile struct {
	store.Handle
	s *serverSlow
}

func (f *serverSlowFile) ReadAt(p []byte, off int64) (int, error) {
	if f.s.panics {
		panic("the store panics")
	}
	if f.s.delay > 0 {
		time.Sleep(f.s.delay)
	}
	n, err := f.Handle.ReadAt(p, off)
	f.s.read.Add(int64(n))
	return n, err
}

func (f *serverSlowFile) WriteAt(p []byte, off int64) (int, error) {
	if f.s.delay > 0 {
		time.Sleep(f.s.delay)
	}
	n, err := f.Handle.WriteAt(p, off)
	f.s.written.Add(int64(n))
	return n, err
}
