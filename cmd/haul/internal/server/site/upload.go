package site

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/haul-project/haul/store"
)

// Create begins an upload. The policy [Site.Upload] decides whether that is allowed, and under
// which name the file is stored. A client that may write a file may also create its missing parent
// directories ([store.Create].Parents), but not its own directory ([Root].PerClient). The result is
// an [*Upload], which contains the final name.
func (s *Site) Create(ctx context.Context, c Client, name string, o store.Create) (store.Upload, error) {
	if s.Upload == UploadNone {
		return nil, &Refusal{Message: "uploads are not allowed"}
	}
	p, err := s.request(ctx, c, true).place(name)
	if err != nil {
		return nil, err
	}
	if s.Upload == UploadUnique {
		return s.createUnique(ctx, p, o)
	}
	// Do not create the client's own directory: the administrator decides which clients have one.
	o.Parents = o.Parents && !p.claims
	o.Exclusive = o.Exclusive || s.Upload == UploadCreate
	u, err := p.store.Create(ctx, p.name, o)
	if err != nil {
		return nil, err
	}
	return &Upload{Upload: u, Name: p.name}, nil
}

// An Upload is a file that a client is sending.
type Upload struct {
	store.Upload
	Name string // the name that the file gets in the store at Commit
}

// Unwrap returns the upload of the store, for [store.As].
func (u *Upload) Unwrap() any { return u.Upload }

// Location returns the final location of the file, with Name, for a server's log.
func (u *Upload) Location() store.Location {
	l := store.LocationOf(u.Upload)
	l.Name = u.Name
	return l
}

// maxUnique is how many names are tried for one upload, because the first names may exist already.
const maxUnique = 100

// stampFormat is the format of the time in a unique name: ISO 8601 without colons, which Windows
// does not allow in names.
const stampFormat = "20060102T150405.000Z"

// createUnique begins an upload under a name that does not exist yet.
func (s *Site) createUnique(ctx context.Context, p place, o store.Create) (store.Upload, error) {
	o.Exclusive = true
	stamp := s.nextStamp()
	for i := 1; ; i++ {
		name := uniqueName(p.name, stamp, i)
		u, err := p.store.Create(ctx, name, o)
		if err == nil {
			return &Upload{Upload: u, Name: name}, nil
		}
		if !errors.Is(err, fs.ErrExist) || i == maxUnique {
			return nil, err
		}
	}
}

// nextStamp returns the current time, but never the same millisecond twice. With the same time, two
// simultaneous uploads under the same name would both find the name free, and the upload that
// finishes second would be lost.
func (s *Site) nextStamp() time.Time {
	now := time.Now
	if s.Now != nil {
		now = s.Now
	}
	for {
		last := s.stamp.Load()
		next := max(now().UnixMilli(), last+1)
		if s.stamp.CompareAndSwap(last, next) {
			return time.UnixMilli(next).UTC()
		}
	}
}

// uniqueName inserts a time before the extension of a name. From the second try on, it also inserts
// the number of the try: config.txt becomes config.20261122T101500.123Z.txt, and then
// config.20261122T101500.123Z-2.txt.
func uniqueName(name string, stamp time.Time, try int) string {
	dir, base := path.Split(name)
	ext := path.Ext(base)
	if ext == base { // .bashrc has no extension
		ext = ""
	}
	mark := stamp.Format(stampFormat)
	if try > 1 {
		mark += "-" + strconv.Itoa(try)
	}
	stem := strings.TrimSuffix(base, ext)
	if room := maxElement - len(mark) - len(ext) - 1; len(stem) > room && room > 0 {
		stem = strings.ToValidUTF8(stem[:room], "") // removes a character that was cut in the middle
	}
	return dir + stem + "." + mark + ext
}

// maxElement is the maximum length of an element of a name on most file systems, in bytes.
const maxElement = 255
