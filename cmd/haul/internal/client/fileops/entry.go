package fileops

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/client/remote"
	"github.com/haul-project/haul/internal/glob"
	"github.com/haul-project/haul/store"
)

// An entry is a file on a server, together with its path.
type entry struct {
	fs.FileInfo
	path   string // path on the server
	shown  string // name for output: the entry's name, or the path that the user gave
	target string // target of a symbolic link

	modeless bool // the protocol reports no permissions
}

// sized reports whether the size of an entry is known. Over HTTP, the sizes of directories are not
// known.
func (e entry) sized() bool { return e.Size() >= 0 && (!e.modeless || !e.IsDir()) }

// entries describes everything that a location stands for: one file, or the matches of a pattern.
// If `follow` is set, it describes the targets of symbolic links.
func entries(ctx context.Context, s *remote.Servers, l remote.Location, follow bool) (c remote.Server, list []entry, errs []error) {
	c, err := s.Connect(ctx, l, remote.Intent{})
	if err != nil {
		return nil, nil, []error{err}
	}
	found, err := remote.Find(ctx, c, l)
	if err != nil {
		return nil, nil, []error{err}
	}
	for _, m := range found {
		fi, err := remote.Describe(ctx, c, m, follow)
		err = asTyped(l, m, err)
		if err == nil && l.IsDirName() && fi.Mode().IsRegular() {
			err = fmt.Errorf("%v: is not a directory", l)
		}
		if err != nil {
			errs = append(errs, failure.Remote.Wrap(err))
			continue
		}
		list = append(list, entry{FileInfo: fi, path: m.Name, shown: m.Name, modeless: c.Capabilities().NoModes})
	}
	return c, list, errs
}

// asTyped adds the name that the user would type to an error about a match. For a location without
// a pattern that is the location as typed; otherwise it is the name of the match on its server.
func asTyped(l remote.Location, m glob.Match, err error) error {
	switch {
	case err == nil:
		return nil
	case m.Info == nil: // the location has no pattern
		return fmt.Errorf("%v: %w", l, console.WithoutPath(err))
	}
	return fmt.Errorf("%s: %w", console.Visible(l.At(strings.TrimPrefix(m.Name, "/"))), console.WithoutPath(err))
}

// readLinks reads the targets of symbolic links. If a target cannot be read, the output omits it.
func readLinks(ctx context.Context, c remote.Server, list []entry) {
	ask(list, isLink, func(i int, e entry) { list[i].target, _ = c.Readlink(ctx, e.path) })
}

// owners maps the IDs of users and groups to their names. It lacks names that the server does not
// report.
type owners struct{ users, groups map[uint32]string }

// ownersOf asks the server for the names of the files' owners.
func ownersOf(ctx context.Context, c remote.Server, list []entry) owners {
	uids, gids := map[uint32]string{}, map[uint32]string{}
	for _, e := range list {
		if d, ok := store.DetailsOf(e); ok {
			uids[d.UID], gids[d.GID] = "", ""
		}
	}
	u, g := slices.Sorted(maps.Keys(uids)), slices.Sorted(maps.Keys(gids))
	if len(u)+len(g) == 0 {
		return owners{} // do not use c: it may be nil if there are no entries
	}
	names := c.Capabilities().OwnerNames
	if names == nil {
		return owners{}
	}
	users, groups, err := names(ctx, u, g)
	if err != nil {
		return owners{} // without the names, the output shows the IDs
	}
	for i, id := range u {
		uids[id] = users[i]
	}
	for i, id := range g {
		gids[id] = groups[i]
	}
	return owners{uids, gids}
}

// nameOr returns a name, or the number if the name is empty.
func nameOr(name string, id uint32) string {
	if name == "" {
		return strconv.FormatUint(uint64(id), 10)
	}
	return name
}

// A described holds the fields of an entry for JSON.
type described struct {
	Path      string     `json:"path"`
	PathBytes []byte     `json:"path_bytes,omitempty"` // set if the path is not UTF-8
	Name      string     `json:"name"`
	NameBytes []byte     `json:"name_bytes,omitempty"`
	Type      string     `json:"type"`
	Size      *int64     `json:"size,omitempty"`
	Mode      string     `json:"mode,omitempty"`
	Modified  *time.Time `json:"modified,omitempty"`
	Accessed  *time.Time `json:"accessed,omitempty"`
	UID       *uint32    `json:"uid,omitempty"`
	GID       *uint32    `json:"gid,omitempty"`
	Owner     string     `json:"owner,omitempty"`
	Group     string     `json:"group,omitempty"`
	Links     uint64     `json:"links,omitempty"`
	Target    string     `json:"target,omitempty"`
}

// fileSize returns the size by which an entry is sorted. Directories count as smaller than all
// files, so they come last: the sizes that servers report for directories do not describe their
// contents, and HTTP reports none.
func (e entry) fileSize() int64 {
	if e.IsDir() {
		return math.MinInt64
	}
	return e.Size()
}

// describe returns everything that is known about an entry, for JSON.
func describe(e entry, o owners) described {
	d := described{Path: e.path, Name: e.Name(), Type: console.TypeName(e.Mode()), Target: e.target}
	if !utf8.ValidString(e.path) {
		d.PathBytes = []byte(e.path)
	}
	if !utf8.ValidString(e.Name()) {
		d.NameBytes = []byte(e.Name())
	}
	if size := e.Size(); e.Mode()&fs.ModeIrregular == 0 && e.sized() {
		d.Size = &size
	}
	if e.Mode()&fs.ModeIrregular == 0 && !e.modeless {
		d.Mode = fmt.Sprintf("%04o", console.UnixBits(e.Mode()))
	}
	if t := e.ModTime(); !t.IsZero() {
		t = t.UTC()
		d.Modified = &t
	}
	if more, ok := store.DetailsOf(e); ok {
		d.UID, d.GID, d.Links = &more.UID, &more.GID, more.Links
		d.Owner, d.Group = o.users[more.UID], o.groups[more.GID]
		if t := more.AccessTime; !t.IsZero() {
			t = t.UTC()
			d.Accessed = &t
		}
	}
	return d
}

// sftpColumns is the number of columns that ls -l prints before the name for SFTP. For HTTP there
// are only three of them: type, size and time.
const sftpColumns = 6

// longRow returns the columns that ls -l prints before the name.
func longRow(e entry, o owners, now time.Time, human bool) []string {
	links, owner, group, size := console.Unknown, console.Unknown, console.Unknown, strconv.FormatInt(e.Size(), 10)
	switch {
	case !e.sized():
		size = console.Unknown
	case human:
		size = console.HumanSize(e.Size())
	}
	if d, ok := store.DetailsOf(e); ok {
		owner, group = nameOr(o.users[d.UID], d.UID), nameOr(o.groups[d.GID], d.GID)
		if d.Links > 0 {
			links = strconv.FormatUint(d.Links, 10)
		}
	}
	mode, changed := console.ModeString(e.Mode()), console.ListTime(e.ModTime(), now)
	if e.modeless {
		return []string{mode[:1], size, changed}
	}
	return []string{mode, links, owner, group, size, changed}
}

// writeJSON writes a value on a separate line.
func writeJSON(w io.Writer, v any) []error {
	if err := console.WriteJSON(w, v); err != nil {
		return []error{failure.Local.Wrap(err)}
	}
	return nil
}
