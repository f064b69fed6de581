package store

import (
	"context"
	"io/fs"
	"path"
	"time"

	"github.com/haul-project/haul/store/internal/rules"
)

// Sink returns a store that keeps nothing: it is for programs that want the
// files, not a place for them. An upload gathers in memory as in [Mem], and
// Commit hands it to done as a File, without a copy. The File belongs to done
// then, and is read, with its size from Stat, until the program closes it. It
// is a [TryReader] that never returns [ErrWouldBlock].
//
// At most limit bytes are held, 0 or less meaning [DefaultMemLimit]: those of
// uploads under way, and of files not closed yet, 512 more for each. Beyond
// that, uploads fail with [ErrNoSpace]. A file that is never closed counts
// until the garbage collector finds it.
//
// Commit calls done in its own goroutine and returns when done has, so a peer
// waits for done before it learns that the file has arrived: what takes long
// belongs in a goroutine of the program. No lock is held meanwhile, and several
// files may be handed over at once. A panic in done goes through Commit.
//
// Nothing exists in a sink: Open and Stat return [fs.ErrNotExist] for every
// name, and the same name can be uploaded again and again, even with
// [Create.Exclusive].
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
