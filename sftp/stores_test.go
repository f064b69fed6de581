package sftp

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/haul-project/haul/store"
)

// A brokenTree is a store whose open files return err for every operation.
type brokenTree struct {
	store.Tree
	err error
}

func (b brokenTree) OpenFile(ctx context.Context, name string, a store.Access) (store.Handle, error) {
	h, err := b.Tree.OpenFile(ctx, name, a)
	if err != nil {
		return nil, err
	}
	return brokenFile{h, b.err}, nil
}

type brokenFile struct {
	store.Handle
	err error
}

func (f brokenFile) ReadAt([]byte, int64) (int, error)  { return 0, f.err }
func (f brokenFile) WriteAt([]byte, int64) (int, error) { return 0, f.err }

func (f brokenFile) Close() error {
	_ = f.Handle.Close()
	if f.err == nil {
		return context.Canceled
	}
	return f.err
}

// A slowTree is a store that counts bytes, and is slow.
type slowTree struct {
	store.Tree
	read, written atomic.Int64 // number of bytes so far
	delay         time.Duration
	panics        bool
}

func (s *slowTree) OpenFile(ctx context.Context, name string, a store.Access) (store.Handle, error) {
	h, err := s.Tree.OpenFile(ctx, name, a)
	if err != nil {
		return nil, err
	}
	return &slowFile{h, s}, nil
}

type slowFile struct {
	store.Handle
	s *slowTree
}

func (f *slowFile) ReadAt(p []byte, off int64) (int, error) {
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

func (f *slowFile) WriteAt(p []byte, off int64) (int, error) {
	if f.s.delay > 0 {
		time.Sleep(f.s.delay)
	}
	n, err := f.Handle.WriteAt(p, off)
	f.s.written.Add(int64(n))
	return n, err
}
