package site

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/haul-project/haul/store"
)

// A Policy says which uploads are accepted.
type Policy uint8

// The policies.
const (
	UploadNone      Policy = iota // none at all
	UploadCreate                  // new files: an existing name is refused
	UploadOverwrite               // new files, and files that replace others
	UploadUnique                  // each upload gets a unique name: the client's name and the time
)

var policies = [...]string{UploadNone: "none", UploadCreate: "create", UploadOverwrite: "overwrite", UploadUnique: "unique"}

// String returns "none", "create", "overwrite" or "unique".
func (p Policy) String() string {
	if int(p) < len(policies) {
		return policies[p]
	}
	return "policy " + strconv.Itoa(int(p))
}

// ParsePolicy reads the text that [Policy.String] returns.
func ParsePolicy(s string) (Policy, error) {
	if i := slices.Index(policies[:], s); i >= 0 {
		return Policy(i), nil
	}
	return 0, fmt.Errorf("upload policy %q: write one of %s", s, strings.Join(policies[:], ", "))
}

// maxUnique bounds the names that are tried if earlier ones exist.
const maxUnique = 100

// stampFormat is the time in a unique name: ISO 8601 without colons, which Windows does not allow
// in names.
const stampFormat = "20060102T150405.000Z"

// createUnique begins an upload under a free name.
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

// nextStamp returns the time, but never the same millisecond twice. Otherwise two simultaneous
// uploads with the same name would both find the name free, and the second to finish would be lost.
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

// uniqueName inserts a time before the extension of a name, and from the second try on also a
// number: config.txt becomes config.20261122T101500.123Z.txt or config.20261122T101500.123Z-2.txt.
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
		stem = strings.ToValidUTF8(stem[:room], "") // no partial character at the end
	}
	return dir + stem + "." + mark + ext
}

// maxElement is the longest element of a name on most file systems, in bytes.
const maxElement = 255
