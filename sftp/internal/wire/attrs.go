package wire

import (
	"math"
	"time"
)

// AttrFlags say which attributes are present (draft, section 5).
type AttrFlags uint32

// The attribute flags of version 3.
const (
	AttrSize     AttrFlags = 1 << 0
	AttrOwner    AttrFlags = 1 << 1 // user and group
	AttrMode     AttrFlags = 1 << 2 // called "permissions" in the draft
	AttrTimes    AttrFlags = 1 << 3
	AttrExtended AttrFlags = 1 << 31 // never set in an [Attrs]

	attrKnown = AttrSize | AttrOwner | AttrMode | AttrTimes
)

// minPair is the smallest size of an extension pair in bytes: two lengths.
const minPair = 4 + 4

// Attrs are a file's attributes. Attributes that Flags does not include are unknown; in a request,
// they are not to be changed.
//
// Extended attributes are skipped when read, and never sent. Peers would have to agree on their
// meaning first, and OpenSSH defines none.
type Attrs struct {
	Flags AttrFlags
	Mode  Mode
	Size  int64  // number of bytes; math.MaxInt64 if the peer sent a number that does not fit into an int64
	UID   uint32 // the owner's numeric ID
	GID   uint32 // the group's numeric ID
	Atime uint32 // last access, in seconds since 1970
	Mtime uint32 // last modification, in seconds since 1970
}

// Has reports whether all attributes in f are present.
func (a Attrs) Has(f AttrFlags) bool { return a.Flags&f == f }

// SetSize adds a size in bytes, which must not be negative.
func (a *Attrs) SetSize(n int64) {
	a.Flags |= AttrSize
	a.Size = n
}

// SetOwner adds a user and a group.
func (a *Attrs) SetOwner(uid, gid uint32) {
	a.Flags |= AttrOwner
	a.UID, a.GID = uid, gid
}

// SetMode adds the permissions and the type.
func (a *Attrs) SetMode(m Mode) {
	a.Flags |= AttrMode
	a.Mode = m
}

// SetTimes adds both times, which can only be set together. Version 3 represents them in whole
// seconds in the years 1970 to 2106, so fractions of seconds are dropped, and times outside of
// these years become the first or the last of them.
func (a *Attrs) SetTimes(accessed, modified time.Time) {
	a.Flags |= AttrTimes
	a.Atime, a.Mtime = seconds(accessed), seconds(modified)
}

// Accessed returns Atime as a time.
func (a Attrs) Accessed() time.Time { return time.Unix(int64(a.Atime), 0) }

// Modified returns Mtime as a time.
func (a Attrs) Modified() time.Time { return time.Unix(int64(a.Mtime), 0) }

func seconds(t time.Time) uint32 {
	return uint32(min(max(0, t.Unix()), math.MaxUint32))
}

func appendAttrs(b []byte, a Attrs) []byte {
	b = appendUint32(b, uint32(a.Flags&attrKnown))
	if a.Has(AttrSize) {
		b = appendUint64(b, uint64(a.Size))
	}
	if a.Has(AttrOwner) {
		b = appendUint32(appendUint32(b, a.UID), a.GID)
	}
	if a.Has(AttrMode) {
		b = appendUint32(b, uint32(a.Mode))
	}
	if a.Has(AttrTimes) {
		b = appendUint32(appendUint32(b, a.Atime), a.Mtime)
	}
	return b
}

// attrs reads a file's attributes. It ignores flags that version 3 does not define, as OpenSSH
// does, and assumes that no data belongs to them.
func (r *reader) attrs() (a Attrs) {
	flags := AttrFlags(r.uint32("attribute flags"))
	a.Flags = flags & attrKnown
	if a.Has(AttrSize) {
		a.Size = r.size("attribute size")
	}
	if a.Has(AttrOwner) {
		a.UID = r.uint32("attribute uid")
		a.GID = r.uint32("attribute gid")
	}
	if a.Has(AttrMode) {
		a.Mode = Mode(r.uint32("attribute permissions"))
	}
	if a.Has(AttrTimes) {
		a.Atime = r.uint32("attribute atime")
		a.Mtime = r.uint32("attribute mtime")
	}
	if flags&AttrExtended != 0 {
		for range r.count("extended attributes", minPair, MaxPairs) {
			r.bytes("extended attribute's type", MaxPacket)
			r.bytes("extended attribute's data", MaxPacket)
		}
	}
	return a
}
