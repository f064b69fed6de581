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

	"github.com/haul-project/haul/store"
)

// owners are the names of users and groups, by their numbers, as far as the
// server tells them.
type owners struct{ users, groups map[uint32]string }

// ownersOf asks for the names of those whom files belong to.
func (c *remote) ownersOf(ctx context.Context, list []listed) owners {
	uids, gids := map[uint32]string{}, map[uint32]string{}
	for _, e := range list {
		if d, ok := store.DetailsOf(e); ok {
			uids[d.UID], gids[d.GID] = "", ""
		}
	}
	u, g := keys(uids), keys(gids)
	if len(u)+len(g) == 0 {
		return owners{}
	}
	users, groups, err := c.OwnerNames(ctx, u, g)
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

// nameOr returns a name, or the number of whom has none.
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
	d := described{Path: e.path, Name: e.Name(), Type: typeName(e.Mode()), Target: e.target}
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
		d.Mode = fmt.Sprintf("%04o", unixBits(e.Mode()))
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

// unixBits returns a mode as chmod(1) has it.
func unixBits(m fs.FileMode) uint32 {
	bits := uint32(m.Perm())
	for _, special := range []struct {
		bit  fs.FileMode
		unix uint32
	}{{fs.ModeSetuid, 0o4000}, {fs.ModeSetgid, 0o2000}, {fs.ModeSticky, 0o1000}} {
		if m&special.bit != 0 {
			bits |= special.unix
		}
	}
	return bits
}

// typeName says in a word what a file is.
func typeName(m fs.FileMode) string {
	switch m.Type() &^ fs.ModeCharDevice {
	case 0:
		return "file"
	case fs.ModeDir:
		return "dir"
	case fs.ModeSymlink:
		return "symlink"
	case fs.ModeNamedPipe:
		return "fifo"
	case fs.ModeSocket:
		return "socket"
	case fs.ModeDevice:
		if m&fs.ModeCharDevice != 0 {
			return "char device"
		}
		return "block device"
	}
	return "unknown"
}

// modeString returns type and permissions as ls -l does.
func modeString(m fs.FileMode) string {
	letter := map[string]byte{"file": '-', "dir": 'd', "symlink": 'l', "fifo": 'p', "socket": 's', "char device": 'c', "block device": 'b'}
	b := []byte("?rwxrwxrwx")
	if c, ok := letter[typeName(m)]; ok {
		b[0] = c
	}
	for i := range 9 {
		if m.Perm()&(1<<(8-i)) == 0 {
			b[i+1] = '-'
		}
	}
	for _, special := range []struct {
		bit  fs.FileMode
		at   int
		x, X byte
	}{{fs.ModeSetuid, 3, 's', 'S'}, {fs.ModeSetgid, 6, 's', 'S'}, {fs.ModeSticky, 9, 't', 'T'}} {
		if m&special.bit == 0 {
			continue
		}
		if b[special.at] == 'x' {
			b[special.at] = special.x
		} else {
			b[special.at] = special.X
		}
	}
	return string(b)
}

// sftpColumns are the columns of ls -l without the name. HTTP has three of them:
// type, size and time.
const sftpColumns = 6

// unknown stands in a column for what a server does not say.
const unknown = "-"

// longRow returns the columns of ls -l, but for the name.
func longRow(e listed, o owners, now time.Time, human bool) []string {
	links, owner, group, size := unknown, unknown, unknown, strconv.FormatInt(e.Size(), 10)
	switch {
	case !e.sized():
		size = unknown
	case human:
		size = humanSize(e.Size())
	}
	if d, ok := store.DetailsOf(e); ok {
		owner, group = nameOr(o.users[d.UID], d.UID), nameOr(o.groups[d.GID], d.GID)
		if d.Links > 0 {
			links = strconv.FormatUint(d.Links, 10)
		}
	}
	mode, changed := modeString(e.Mode()), listTime(e.ModTime(), now)
	if e.modeless {
		return []string{mode[:1], size, changed}
	}
	return []string{mode, links, owner, group, size, changed}
}

// listTime returns a time as ls -l does: with the hour if it is of the last half
// year, or else with the year.
func listTime(t, now time.Time) string {
	const halfYear = 365 * 24 * time.Hour / 2
	switch t = t.Local(); {
	case t.IsZero():
		return unknown
	case t.After(now.Add(-halfYear)) && t.Before(now.Add(time.Minute)):
		return t.Format("Jan _2 15:04")
	}
	return t.Format("Jan _2  2006")
}

// columns returns how wide each column is.
func columns(rows [][]string) []int {
	var widths []int
	for _, row := range rows {
		widths = append(widths, make([]int, max(0, len(row)-len(widths)))...)
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	return widths
}

// humanSize gives a size in units of 1024, as ls -h and df -h do: rounded up,
// with one decimal below ten.
func humanSize(n int64) string {
	if n < 1024 {
		return strconv.FormatInt(max(n, 0), 10)
	}
	const units = "KMGTPE"
	step, unit := uint64(1024), 0
	for uint64(n)/step >= 1024 {
		step *= 1024
		unit++
	}
	whole, rest := uint64(n)/step, uint64(n)%step
	if tenths := whole*10 + (rest*10+step-1)/step; tenths < 100 {
		return fmt.Sprintf("%d.%d%c", tenths/10, tenths%10, units[unit])
	}
	if rest > 0 {
		whole++
	}
	if whole == 1024 {
		return "1.0" + units[unit+1:unit+2]
	}
	return fmt.Sprintf("%d%c", whole, units[unit])
}

// humanFlag adds -h as ls and df have it. Help remains under its long name.
func humanFlag(cmd *cobra.Command, to *bool, usage string) {
	cmd.Flags().BoolVarP(to, "human-readable", "h", false, usage)
	cmd.Flags().Bool("help", false, "help for "+cmd.Name())
}
