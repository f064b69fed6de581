package s3

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"strings"
	"unicode/utf8"

	"github.com/minio/minio-go/v7"

	"github.com/haul-project/haul/internal/rate"
	"github.com/haul-project/haul/internal/servertext"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/internal/rules"
)

// listPage is the number of keys that are requested at once, which is the most that S3 allows.
const listPage = 1000

// A listing lists the keys that begin with a prefix, page by page. Unless recursive is set, all
// keys in a subdirectory are listed as one, which ends in a slash.
type listing struct {
	c         *client
	ctx       context.Context
	prefix    string
	recursive bool
	key, dir  string // highest key, and highest subdirectory, that were received so far

	next func() (minio.ObjectInfo, bool)
	stop func()
}

func (c *client) list(ctx context.Context, prefix string, recursive bool) *listing {
	// All pages are requested with the context of the first one.
	ctx = context.WithValue(ctx, answerKey{}, new(answer))
	return &listing{c: c, ctx: ctx, prefix: prefix, recursive: recursive}
}

func (l *listing) close() {
	if l.stop != nil {
		l.stop()
	}
	l.next, l.stop = nil, nil
}

// begin requests the keys that follow the keys received so far.
func (l *listing) begin(ctx context.Context) {
	l.close()
	o := minio.ListObjectsOptions{Prefix: l.prefix, Recursive: l.recursive, MaxKeys: listPage, FetchOwner: new(bool)}
	if o.StartAfter = l.key; l.dir > l.key {
		o.StartAfter = l.dir + string(utf8.MaxRune)
	}
	l.next, l.stop = iter.Pull(l.c.server.ListObjectsIter(ctx, l.c.bucket, o))
}

// entry returns the next key. After the last key it returns io.EOF. If requesting a page fails, it
// tries again.
func (l *listing) entry() (o minio.ObjectInfo, err error) {
	for e := new(attempts); ; {
		if l.ctx.Err() != nil {
			return o, context.Cause(l.ctx)
		}
		more := false
		err := l.c.once(l.ctx, func(ctx context.Context) error {
			if l.next == nil {
				l.begin(ctx)
			}
			if o, more = l.next(); o.Err != nil {
				l.close() // a failed listing stops early; it must not be taken for complete
			}
			return o.Err
		})
		switch {
		case err != nil:
			pause, again := l.c.again(e, err)
			if !again {
				return o, given(err, e.tries)
			}
			if err := rate.Sleep(l.ctx, pause); err != nil {
				return o, err
			}
			continue
		case !more && l.ctx.Err() != nil:
			return o, context.Cause(l.ctx)
		case !more:
			return o, io.EOF
		}
		return o, l.check(o)
	}
}

// check returns an error if a listing repeats itself or contains a key without the prefix. Both keys
// and subdirectories must arrive in ascending order.
func (l *listing) check(o minio.ObjectInfo) error {
	high := &l.key
	if !l.recursive && o.ETag == "" && strings.HasSuffix(o.Key, "/") && o.Key != l.prefix {
		high = &l.dir
	}
	if *high != "" && o.Key <= *high || !strings.HasPrefix(o.Key, l.prefix) {
		return fmt.Errorf("%w: it lists the key %q behind %q", ErrProtocol, servertext.Cut(o.Key), servertext.Cut(*high))
	}
	*high = o.Key
	return nil
}

// OpenDir opens a directory of any size, to be listed in pieces. Objects whose keys are not valid
// file names are omitted: see the package comment.
func (s *Store) OpenDir(ctx context.Context, name string) (store.Entries, error) {
	e, err := s.openDir(ctx, name)
	if err != nil {
		return nil, s.fail("readdir", name, err)
	}
	return e, nil
}

func (s *Store) openDir(ctx context.Context, name string) (*entries, error) {
	prefix, err := s.dirPrefix(ctx, name)
	if err != nil {
		return nil, err
	}
	e := &entries{name: name, l: s.list(ctx, prefix, false)}
	// A directory exists if at least one key is in it. Only the root may be empty.
	first, err := e.l.entry()
	switch {
	case err == io.EOF && name == ".":
		e.over = true
	case err == io.EOF:
		e.l.close()
		return nil, fs.ErrNotExist
	case err != nil:
		e.l.close()
		return nil, err
	default:
		e.first = &first
	}
	return e, nil
}

// An entries is an open directory.
type entries struct {
	name string
	l    *listing
	// first is an entry that was already received, but not returned yet; nil if there is no such
	// entry.
	first *minio.ObjectInfo
	over  bool
	ended bool // Close was called
}

// Next implements [store.Entries].
func (e *entries) Next(into []fs.FileInfo) (n int, err error) {
	if e.ended {
		return 0, e.l.c.fail("readdir", e.name, fs.ErrClosed)
	}
	for n < len(into) {
		fi, err := e.entry()
		if err == io.EOF && n > 0 {
			return n, nil
		}
		if err == io.EOF {
			return 0, io.EOF
		}
		if err != nil {
			return n, e.l.c.fail("readdir", e.name, err)
		}
		into[n] = fi
		n++
	}
	return n, nil
}

// entry returns the next entry that has a valid name.
func (e *entries) entry() (fs.FileInfo, error) {
	for !e.over {
		var o minio.ObjectInfo
		var err error
		if e.first != nil {
			o, e.first = *e.first, nil
		} else if o, err = e.l.entry(); err != nil {
			e.over = true
			return nil, err
		}
		name, dir := strings.CutSuffix(o.Key[len(e.l.prefix):], "/")
		if name == "." || !store.ValidName(name) || !utf8.ValidString(name) {
			continue
		}
		if dir {
			return info{name: name, dir: true}, nil
		}
		if i, err := infoOf(name, o); err == nil {
			i.md5, i.told = false, false
			return i, nil
		}
		return info{name: name, size: max(0, o.Size), time: o.LastModified}, nil
	}
	return nil, io.EOF
}

// Close ends the listing.
func (e *entries) Close() error {
	if e.ended {
		return e.l.c.fail("close", e.name, fs.ErrClosed)
	}
	e.ended = true
	e.l.close()
	return nil
}

// ReadDir returns the entries of a directory, at most 65536, sorted by name.
func (s *Store) ReadDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	list, err := s.readDir(ctx, name)
	if err != nil {
		return nil, s.fail("readdir", name, err)
	}
	return list, nil
}

func (s *Store) readDir(ctx context.Context, name string) ([]fs.DirEntry, error) {
	e, err := s.openDir(ctx, name)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	var list []fs.DirEntry
	for {
		fi, err := e.entry()
		switch {
		case err == io.EOF:
			rules.SortEntries(list)
			return list, nil
		case err != nil:
			return nil, err
		case len(list) == rules.MaxEntries:
			return nil, rules.ErrManyEntries
		}
		list = append(list, fs.FileInfoToDirEntry(fi))
	}
}
