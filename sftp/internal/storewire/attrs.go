package storewire

import (
	"io/fs"
	"math"
	"time"

	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
)

// settableBits are the bits of a mode that a client may ask for.
const settableBits = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky

// AttrsOf returns a file's attributes as version 3 has them, and how many names
// the file has. A file that could not be described has no attributes.
func AttrsOf(fi fs.FileInfo) (a wire.Attrs, links uint64) {
	if fi.Mode().Type() == fs.ModeIrregular && fi.Mode().Perm() == 0 {
		return a, 0
	}
	a.SetSize(max(0, fi.Size()))
	a.SetMode(wire.ModeOf(uint32(fi.Mode())))
	accessed := fi.ModTime()
	links = 1
	if d, ok := store.DetailsOf(fi); ok {
		a.SetOwner(d.UID, d.GID)
		accessed, links = d.AccessTime, d.Links
	}
	a.SetTimes(accessed, fi.ModTime())
	return a, links
}

// AttrOf returns what a request wants to be changed. The type in a mode is
// passed over, as OpenSSH does: clients send back what they were sent.
func AttrOf(a wire.Attrs) (attr store.Attr) {
	if a.Has(wire.AttrSize) {
		attr.Size = &a.Size
	}
	if a.Has(wire.AttrOwner) {
		attr.UID, attr.GID = &a.UID, &a.GID
	}
	if a.Has(wire.AttrMode) {
		mode := fs.FileMode(a.Mode.FileMode()) & settableBits
		attr.Mode = &mode
	}
	if a.Has(wire.AttrTimes) {
		attr.AccessTime, attr.ModTime = a.Accessed(), a.Modified()
	}
	return attr
}

// ChangesOf is the other way round, for a client: it returns what to send so
// that a server changes what attr says. Version 3 can change an owner only with
// a group, and one time only with the other: where attr has one of two, it is
// now that has the other, what is known of the file. That may be nil, and then
// an owner or group alone is left out, and a time stands for both.
func ChangesOf(attr store.Attr, now fs.FileInfo) (a wire.Attrs) {
	var d store.Details
	known := false
	if now != nil {
		d, known = store.DetailsOf(now)
	}
	if attr.Size != nil {
		a.SetSize(*attr.Size)
	}
	if attr.UID != nil && attr.GID != nil || known && (attr.UID != nil || attr.GID != nil) {
		if attr.UID != nil {
			d.UID = *attr.UID
		}
		if attr.GID != nil {
			d.GID = *attr.GID
		}
		a.SetOwner(d.UID, d.GID)
	}
	if attr.Mode != nil {
		a.SetMode(wire.ModeOf(uint32(*attr.Mode&settableBits)) &^ wire.ModeType)
	}
	accessed, modified := attr.AccessTime, attr.ModTime
	if accessed.IsZero() && modified.IsZero() {
		return a
	}
	if accessed.IsZero() {
		if accessed = modified; known {
			accessed = d.AccessTime
		}
	}
	if modified.IsZero() {
		if modified = accessed; now != nil {
			modified = now.ModTime()
		}
	}
	a.SetTimes(accessed, modified)
	return a
}

// A fileInfo is an [fs.FileInfo] of what a peer sent about a file.
type fileInfo struct {
	name  string
	attrs wire.Attrs
}

// InfoOf describes the file of that name, without directory, by its attributes.
func InfoOf(name string, a wire.Attrs) fs.FileInfo { return fileInfo{name, a} }

func (i fileInfo) Name() string { return i.name }
func (i fileInfo) Size() int64  { return i.attrs.Size }
func (i fileInfo) IsDir() bool  { return i.attrs.Mode.IsDir() }

// Mode is irregular where the peer did not say.
func (i fileInfo) Mode() fs.FileMode {
	if !i.attrs.Has(wire.AttrMode) {
		return fs.ModeIrregular
	}
	return fs.FileMode(i.attrs.Mode.FileMode())
}

// ModTime is zero where the peer did not say.
func (i fileInfo) ModTime() time.Time {
	if !i.attrs.Has(wire.AttrTimes) {
		return time.Time{}
	}
	return i.attrs.Modified()
}

// Sys returns a [store.Details] if the peer sent an owner or times: see
// [store.DetailsOf]. Version 3 does not say how many names a file has.
func (i fileInfo) Sys() any {
	d := store.Details{UID: i.attrs.UID, GID: i.attrs.GID}
	if i.attrs.Has(wire.AttrTimes) {
		d.AccessTime = i.attrs.Accessed()
	}
	if i.attrs.Flags&(wire.AttrOwner|wire.AttrTimes) == 0 {
		return nil
	}
	return d
}

// DescribedBy returns what a peer sent about a file, if [InfoOf] made fi.
func DescribedBy(fi fs.FileInfo) (wire.Attrs, bool) {
	i, ok := fi.(fileInfo)
	return i.attrs, ok
}

// NeedsCurrent reports whether [ChangesOf] needs the current attributes to send a: version
// 3 has the owner together with the group, and one time with the other.
func NeedsCurrent(a store.Attr) bool {
	return (a.UID == nil) != (a.GID == nil) || a.AccessTime.IsZero() != a.ModTime.IsZero()
}

// SpaceOf converts what a server reports in fragments to bytes. No part is more than the whole:
// else what is used would be negative.
func SpaceOf(v wire.StatVFS) store.Space {
	unit := v.FragmentSize
	if unit == 0 {
		unit = v.BlockSize
	}
	bytes := func(n uint64) int64 {
		if unit > 0 && n > math.MaxInt64/unit {
			return math.MaxInt64
		}
		return int64(n * unit)
	}
	count := func(n uint64) int64 { return int64(min(n, math.MaxInt64)) }
	free := min(v.FreeBlocks, v.Blocks)
	return store.Space{
		Total: bytes(v.Blocks), Free: bytes(free), Available: bytes(min(v.AvailableBlocks, free)),
		BlockSize: count(unit),
		Files:     count(v.Files), FreeFiles: count(v.FreeFiles), AvailableFiles: count(v.AvailableFiles),
		MaxName: int(min(v.MaxName, math.MaxInt32)), ID: v.ID, ReadOnly: v.Flags&wire.StatVFSReadOnly != 0,
	}
}
