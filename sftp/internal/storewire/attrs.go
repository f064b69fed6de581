package storewire

import (
	"io/fs"
	"math"
	"time"

	"github.com/haul-project/haul/sftp/internal/wire"
	"github.com/haul-project/haul/store"
)

// settableBits are the bits of a mode that a client may set.
const settableBits = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky

// AttrsOf converts a file's attributes to those of SFTP version 3, and returns how many names (hard
// links) the file has. If the store could not describe the file, the result has no attributes.
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

// AttrOf returns the attributes that a request changes. It ignores the file type in a mode, as
// OpenSSH does, because clients send back the mode that they received.
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

// ChangesOf is the inverse of AttrOf, for a client: it returns the attributes to send so that a
// server makes the changes in attr. Version 3 can change an owner only together with a group, and
// one time only together with the other. If attr has only one of two such values, ChangesOf takes
// the other one from the argument `now`, which describes the file as it is. If `now` is nil, a
// single owner or group is left out, and a single time is used for both.
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

// A fileInfo is an [fs.FileInfo] made of the attributes that a peer sent.
type fileInfo struct {
	name  string
	attrs wire.Attrs
}

// InfoOf describes a file by its name, without directory, and its attributes.
func InfoOf(name string, a wire.Attrs) fs.FileInfo { return fileInfo{name, a} }

func (i fileInfo) Name() string { return i.name }
func (i fileInfo) Size() int64  { return i.attrs.Size }
func (i fileInfo) IsDir() bool  { return i.attrs.Mode.IsDir() }

// Mode returns an irregular mode if the peer sent none.
func (i fileInfo) Mode() fs.FileMode {
	if !i.attrs.Has(wire.AttrMode) {
		return fs.ModeIrregular
	}
	return fs.FileMode(i.attrs.Mode.FileMode())
}

// ModTime returns the zero time if the peer sent none.
func (i fileInfo) ModTime() time.Time {
	if !i.attrs.Has(wire.AttrTimes) {
		return time.Time{}
	}
	return i.attrs.Modified()
}

// Sys returns a [store.Details] if the peer sent an owner or times: see [store.DetailsOf]. Version
// 3 has no field for the number of names that a file has.
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

// DescribedBy returns the attributes that a peer sent, if fi comes from [InfoOf].
func DescribedBy(fi fs.FileInfo) (wire.Attrs, bool) {
	i, ok := fi.(fileInfo)
	return i.attrs, ok
}

// NeedsCurrent reports whether [ChangesOf] needs the file's present attributes to send the
// attributes a, because version 3 sends the owner together with the group, and one time together
// with the other.
func NeedsCurrent(a store.Attr) bool {
	return (a.UID == nil) != (a.GID == nil) || a.AccessTime.IsZero() != a.ModTime.IsZero()
}

// SpaceOf converts a server's report, which counts in fragments, to bytes. It ensures that no part
// is larger than the whole. Otherwise the used space would be negative.
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
