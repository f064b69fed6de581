package store

import (
	"context"
	"io/fs"
	"path"
	"time"

	"github.com/haul-project/haul/store/internal/rules"
)

// Sink returns a store that keeps nothing. It is for programs that process uploads themselves. As
// in [Mem], an upload is collected in memory; Commit then passes it to done as a File, without a
// copy. done owns the File, and must close it. Stat of the File returns its size. The File is a
// [TryReader] that never returns [ErrWouldBlock].
//
// The store holds at most limit bytes; 0 or less means 64 MiB. Each upload in progress, and each
// File that is not closed yet, is charged its size and 512 bytes. Beyond the limit, uploads fail
// with [ErrNoSpace]. A File that is never closed stays charged until the garbage collector frees
// it.
//
// Commit calls done in its own goroutine and returns when done returns, so the peer's upload is not
// confirmed before that. Do slow work in another goroutine. Sink holds no lock during the call, so
// done may run for several files at once. A panic in done propagates through Commit.
//
// A sink has no files: Open and Stat return [fs.ErrNotExist] for every name, and the same name can
// be uploaded again and again, even with [Create.Exclusive].
func Sink(limit int64, done func(name string, f File)) Store {
	s := &sink{done: done}
	s.budget.limit = memLimit(limit)
	return s
}

type sink struct {
	budget budget
	done   func(name string, f File)
}

func (s *sink) Open(ctx context.Context, name string) (File, error) {
	return nil, memFail("open", name, s.missing(ctx, name))
}

func (s *sink) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	return nil, memFail("stat", name, s.missing(ctx, name))
}

func (s *sink) missing(ctx context.Context, name string) error {
	if err := rules.CheckName(ctx, name); err != nil {
		return err
	}
	return fs.ErrNotExist
}

func (s *sink) Create(ctx context.Context, name string, c Create) (Upload, error) {
	err := rules.CheckName(ctx, name)
	if err == nil && name == "." {
		err = ErrNotRegular
	}
	if err != nil {
		return nil, memFail("create", name, err)
	}
	b, err := newUploadBlock(&s.budget, c.Size)
	if err != nil {
		return nil, memFail("create", name, err)
	}
	return &memUpload{name: name, block: b, publish: func(b *block) error {
		size := int64(len(b.data))
		info := memInfo{name: path.Base(name), size: size, mode: rules.FilePerm(c.Perm), modTime: time.Now()}
		s.done(name, &memReader{file: newMemFile(b), info: info})
		return nil
	}}, nil
}
