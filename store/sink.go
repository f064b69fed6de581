package store

import (
	"context"
	"io/fs"
	"path"
	"time"

	"github.com/haul-project/haul/store/internal/rules"
)

// Sink returns a store that keeps nothing, for programs that process uploads themselves. An upload
// is collected in memory as in [Mem], and Commit passes it to done as a File, without a copy. done
// then owns the File, which can be read until it is closed; Stat returns its size. It is a
// [TryReader] that never returns [ErrWouldBlock].
//
// The store holds at most limit bytes; 0 or less means 64 MiB. Uploads under way and
// files that are not closed yet are charged their size, and 512 bytes each. Beyond the limit,
// uploads fail with [ErrNoSpace]. A file that is never closed is charged until the garbage
// collector finds it.
//
// Commit calls done in its own goroutine and returns when done does, so the peer's upload is not
// confirmed before that. Do slow work in another goroutine. No lock is held meanwhile, and done may
// be called for several files at once. A panic in done propagates through Commit.
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
