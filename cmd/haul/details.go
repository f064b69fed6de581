package main

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/haul-project/haul/internal/console"
	"github.com/haul-project/haul/internal/remote"
	"github.com/haul-project/haul/store"
)

// owners are the names of users and groups, by their numbers, as far as the
// server tells them.
type owners struct{ users, groups map[uint32]string }

// ownersOf asks for the names of the owners of files.
func ownersOf(ctx context.Context, c remote.Server, list []listed) owners {
	uids, gids := map[uint32]string{}, map[uint32]string{}
	for _, e := range list {
		if d, ok := store.DetailsOf(e); ok {
			uids[d.UID], gids[d.GID] = "", ""
		}
	}
	u, g := keys(uids), keys(gids)
	namer, ok := c.(remote.OwnerNamer)
	if !ok || len(u)+len(g) == 0 {
		return owners{}
	}
	users, groups, err := namer.OwnerNames(ctx, u, g)
	if err != nil {
		return owners{} // then numbers have to do
	}
	for i, id := range u {
		uids[id] = users[i]
	}
	for i, id := range g {
		gids[id] = groups[i]
	}
	return owners{uids, gids}
}

func keys(m map[uint32]string) []uint32 {
	list := make([]uint32, 0, len(m))
	for k := range m {
		list = append(list, k)
	}
	slices.Sort(list)
	return list
}

// nameOr returns a name, or the number if there is none.
func nameOr(name string, id uint32) string {
	if name == "" {
		return strconv.FormatUint(uint64(id), 10)
	}
	return name
}

// A described is an entry as JSON says it.
type described struct {
	Path      string     `json:"path"`
	PathBytes []byte     `json:"path_bytes,omitempty"` // if it is no UTF-8
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

// sized reports whether the size of an entry is known. HTTP has none of directories.
func (e listed) sized() bool { return e.Size() >= 0 && (!e.modeless || !e.IsDir()) }

// describe returns what is known of an entry.
func describe(e listed, o owners) described {
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

// sftpColumns are the columns of ls -l without the name. HTTP has three of them:
// type, size and time.
const sftpColumns = 6

// longRow returns the columns of ls -l, but for the name.
func longRow(e listed, o owners, now time.Time, human bool) []string {
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

// humanFlag adds -h as ls and df have it. Help remains under its long name.
func humanFlag(cmd *cobra.Command, to *bool, usage string) {
	cmd.Flags().BoolVarP(to, "human-readable", "h", false, usage)
	cmd.Flags().Bool("help", false, "help for "+cmd.Name())
}
