package s3

import (
	"context"
	"errors"
	"io/fs"
	"sync"

	"github.com/haul-project/haul/store"
)

// Create begins a file. Its size may differ from the announced size, as long as 10,000 parts
// suffice. Old servers do not support If-None-Match: for them, Exclusive is checked only here, and
// not at Commit. With Resume, the upload is a [store.Resumer], even if there is no earlier upload:
// see Match in [store.Capabilities].
func (s *Store) Create(ctx context.Context, name string, c store.Create) (store.Upload, error) {
	u, err := s.create(ctx, name, c)
	if err != nil {
		return nil, s.fail("create", name, err)
	}
	if c.Resume != "" {
		return &resumable{u}, nil
	}
	return u, nil
}

func (s *Store) create(ctx context.Context, name string, c store.Create) (*upload, error) {
	switch {
	case name == "." && c.Exclusive:
		return nil, fs.ErrExist
	case name == ".":
		return nil, store.ErrNotRegular
	}
	key, err := s.key(ctx, name)
	if err != nil {
		return nil, err
	}
	size, err := partFor(c.Size)
	if err != nil {
		return nil, err
	}
	if c.Exclusive {
		switch _, err := s.stat(ctx, name); {
		case err == nil:
			return nil, fs.ErrExist
		// A user may be allowed to write but not to read, so ErrPermission is accepted.
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission):
			return nil, err
		}
	}
	if c.Resume != "" {
		size = markedPart(size, c)
	}
	u := &upload{c: s.client, name: name, key: key, create: c, part: size, most: buffersOf(size), parts: map[int64]*part{}}
	u.moved = sync.NewCond(&u.mu)
	u.ctx, u.cancel = context.WithCancelCause(ctx)
	u.reserve = sync.OnceValue(u.takeMemory)
	u.start = sync.OnceValues(u.begin)
	if c.Resume != "" {
		if err := u.find(); err != nil {
			u.cancel(nil)
			return nil, err
		}
	}
	context.AfterFunc(u.ctx, func() { u.fail(context.Cause(u.ctx)) })
	return u, nil
}
